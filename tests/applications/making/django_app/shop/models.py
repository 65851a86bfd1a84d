"""What a shop keeps, in each way in which Django applications keep the names of files."""

from django.core.files.storage import storages
from django.db import models
from easy_thumbnails.fields import ThumbnailerImageField
from sorl.thumbnail import ImageField
from wagtail.blocks import RichTextBlock
from wagtail.documents.blocks import DocumentChooserBlock
from wagtail.fields import RichTextField, StreamField
from wagtail.images.blocks import ImageChooserBlock
from wagtail.models import Page


def private():
    return storages["private"]


class Product(models.Model):
    name = models.CharField(max_length=100)
    photo = ThumbnailerImageField(upload_to="products/%Y/%m", blank=True)
    banner = ImageField(upload_to="banners", blank=True)
    manual = models.FileField(upload_to="manuals", blank=True)
    deleted_at = models.DateTimeField(null=True)


class Invoice(models.Model):
    pdf = models.FileField(storage=private, upload_to="invoices/%Y")


class Gallery(models.Model):
    title = models.CharField(max_length=100)
    files = models.JSONField(default=list)
    body = models.TextField(blank=True)


class BlogPage(Page):
    hero = models.ForeignKey(
        "wagtailimages.Image", null=True, on_delete=models.SET_NULL, related_name="+"
    )
    body = RichTextField(blank=True)
    stream = StreamField(
        [("image", ImageChooserBlock()), ("text", RichTextBlock()), ("doc", DocumentChooserBlock())]
    )
