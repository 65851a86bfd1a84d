"""What the shop's users did with their files, and what went wrong."""

import io
import json
import os
import sys
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"

import django

django.setup()

import boto3
from botocore.config import Config
from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import call_command
from django.db import connection
from django.test import Client
from PIL import Image
from shop.models import BlogPage, Gallery, Invoice, Product
from sorl.thumbnail import default as sorl
from sorl.thumbnail import get_thumbnail
from sorl.thumbnail.images import ImageFile
from wagtail.documents.models import Document
from wagtail.images.models import Image as WagtailImage
from wagtail.images.models import Rendition
from wagtail.models import Site

BUCKET = settings.S3["bucket_name"]
s3 = boto3.client(
    "s3",
    endpoint_url=settings.S3["endpoint_url"],
    aws_access_key_id=settings.S3["access_key"],
    aws_secret_access_key=settings.S3["secret_key"],
    region_name=settings.S3["region_name"],
    config=Config(s3={"addressing_style": "path"}),
)
dead = {}


def left(why, *keys):
    assert keys, why
    dead.setdefault(why, []).extend(keys)


def key(file):
    return f"{file.storage.location}/{file.name}"


def below(prefix):
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
    return [entry["Key"] for entry in found]


def picture(number, kind="PNG"):
    made = io.BytesIO()
    colour = (number * 7 % 255, number * 13 % 255, 80)
    Image.new("RGB", (60, 40), colour).save(made, kind)
    return made.getvalue()


def of_easy(product):
    folder, _, name = key(product.photo).rpartition("/")
    return below(f"{folder}/thumbs/{name}.")


def of_sorl(file):
    kept = sorl.kvstore
    names = kept._get(ImageFile(file).key, identity="thumbnails") or []
    return [f"media/{kept._get(name).name}" for name in names]


def sell(number):
    product = Product(name=f"product {number}")
    product.photo.save(f"photo {number}.png", ContentFile(picture(number)))
    product.banner.save(f"bänner_{number}.jpg", ContentFile(picture(50 + number, "JPEG")))
    product.manual.save(f"manual{number}.pdf", ContentFile(b"%PDF " + bytes([number]) * 50))
    for alias in ("small", "square"):
        assert product.photo[alias].url
    get_thumbnail(product.banner, "20x20", crop="center")
    get_thumbnail(product.banner, "x16")
    return product


def use_django():
    products = [sell(number) for number in range(10)]
    for number in range(4):
        Invoice().pdf.save(f"{number}.pdf", ContentFile(b"%PDF" + bytes([number]) * 50))
    for number in range(3):
        names = [
            default_storage.save(f"gallery/{number}/{i}.png", ContentFile(picture(70 + i)))
            for i in range(3)
        ]
        pasted = default_storage.save(f"editor/pasted {number}.png", ContentFile(picture(90)))
        Gallery.objects.create(
            title=f"gallery {number}",
            files=[{"key": name, "width": 60} for name in names],
            body=f'<p>look: <img src="{default_storage.url(pasted)}" alt=""></p>',
        )

    # Django leaves the old file where another takes its place.
    first, second, third, fourth, *_ = products
    left("the original of a photo that was replaced", key(first.photo), key(second.banner))
    left("a thumbnail of easy-thumbnails whose original was replaced", *of_easy(first))
    left("a thumbnail of sorl whose original was replaced", *of_sorl(second.banner))
    first.photo.save("photo 0 new.png", ContentFile(picture(200)))
    assert first.photo["small"].url
    second.banner.save("banner 1 new.jpg", ContentFile(picture(201, "JPEG")))
    left("the row was deleted", key(third.photo), key(third.banner), key(third.manual))
    left("a thumbnail of easy-thumbnails whose row was deleted", *of_easy(third))
    left("a thumbnail of sorl whose row was deleted", *of_sorl(third.banner))
    Product.objects.filter(pk=third.pk).delete()
    fourth.deleted_at = datetime.now(timezone.utc)  # a soft delete: its files stay
    fourth.save()
    gallery = Gallery.objects.get(title="gallery 2")
    left("an entry was taken out of a gallery", f"media/{gallery.files[0]['key']}")
    gallery.files = gallery.files[1:]
    gallery.save()
    for number in range(3):
        name = f"products/2026/01/crash{number}.png"
        saved = default_storage.save(name, ContentFile(picture(210 + number)))
        left("a crash before the row", f"media/{saved}")


def use_wagtail():
    User.objects.create_superuser("admin", "admin@example.com", "x")
    client = Client()
    client.force_login(User.objects.get())

    def post(where, name, body, **fields):
        file = io.BytesIO(body)
        file.name = name
        said = {"title": name, "file": file, "tags": "", "collection": "1", **fields}
        assert client.post(f"/admin/{where}", said).status_code == 302, where

    image = {
        "description": "",
        **{f"focal_point_{it}": "" for it in ("x", "y", "width", "height")},
    }
    for number in range(8):
        post("images/add/", f"wag {number}.png", picture(100 + number), **image)
    for number in range(3):
        post("documents/add/", f"doc{number}.pdf", b"%PDF" + bytes([number]) * 50)
    images = list(WagtailImage.objects.order_by("id"))
    stream = [
        {"type": "image", "value": images[2].id},
        {"type": "doc", "value": Document.objects.first().id},
    ]
    body = f'<p>x</p><embed embedtype="image" id="{images[1].id}" format="left" alt="a"/>'
    home = Site.objects.get(is_default_site=True).root_page
    page = BlogPage(title="blog", hero=images[0], body=body, stream=json.dumps(stream))
    home.add_child(instance=page).save_revision().publish()
    assert Client().get(page.url).status_code == 200
    for each in images:
        each.get_rendition("fill-20x20")
        each.get_rendition("max-30x30")

    # Its administration cleans up by itself.
    post(f"images/{images[3].id}/", "replacement.png", picture(150), **image)
    assert client.post(f"/admin/images/{images[5].id}/delete/").status_code == 302
    assert not [name for name in below("media/") if "wag_5" in name]
    replaced, deleted, bare = images[4], images[6], images[7]
    left("an image of Wagtail that code replaced", key(replaced.file))
    replaced.file.save("code.png", ContentFile(picture(151), name="code.png"))
    replaced.save()
    renditions = [key(it.file) for it in deleted.renditions.all()]
    left("an image of Wagtail whose rows SQL deleted", key(deleted.file), *renditions)
    with connection.cursor() as cursor:
        for statement in (
            "delete from wagtailimages_rendition where image_id = %s",
            "delete from wagtailcore_referenceindex where to_object_id = %s::text",
            "delete from wagtailimages_image where id = %s",
        ):
            cursor.execute(statement, [deleted.id])
    left("a rendition whose row was dropped", *[key(it.file) for it in bare.renditions.all()])
    Rendition.objects.filter(image=bare)._raw_delete("default")


call_command("makemigrations", "shop", verbosity=0)
call_command("migrate", verbosity=0)
use_django()
use_wagtail()
for name in ("static/app.css", "backups/db.dump"):
    s3.put_object(Bucket=BUCKET, Key=name, Body=b"not ours")
Path(os.environ["WORK"], "dead.json").write_text(json.dumps({"orphans": dead}))
