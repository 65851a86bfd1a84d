"""A help desk, a forum and a file manager for whom nobody has tuned anything: three packages as is.

Run by the Python that has them. Their own migrations make the tables, and their own code the keys.
"""

import io
import json
import os
from pathlib import Path

import django
from django.conf import settings

S3 = {
    "bucket_name": os.environ["S3_BUCKET"],
    "endpoint_url": os.environ["S3_ENDPOINT"],
    "access_key": os.environ["S3_KEY"],
    "secret_key": os.environ["S3_SECRET"],
    "region_name": os.environ["S3_REGION"],
    "addressing_style": "path",
    "file_overwrite": False,
    "querystring_auth": False,
}
STORAGE = {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": S3}

settings.configure(
    SECRET_KEY="not one",
    USE_TZ=True,
    MEDIA_ROOT="",
    MEDIA_URL="/media/",
    # The file manager makes its storage of a class, and so from these.
    AWS_STORAGE_BUCKET_NAME=S3["bucket_name"],
    AWS_S3_ENDPOINT_URL=S3["endpoint_url"],
    AWS_S3_ACCESS_KEY_ID=S3["access_key"],
    AWS_S3_SECRET_ACCESS_KEY=S3["secret_key"],
    AWS_S3_REGION_NAME=S3["region_name"],
    AWS_S3_ADDRESSING_STYLE="path",
    AWS_QUERYSTRING_AUTH=False,
    STORAGES={"default": STORAGE, "staticfiles": STORAGE},
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "app",
            "USER": "postgres",
            "HOST": "127.0.0.1",
            "PORT": os.environ["DATABASE_PORT"],
        }
    },
    INSTALLED_APPS=[
        *("django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"),
        *("django.contrib.sites", "django.contrib.messages", "django.contrib.admin"),
        "django.contrib.humanize",
        *("helpdesk", "easy_thumbnails", "filer", "mptt", "haystack", "widget_tweaks"),
        *("machina", "machina.apps.forum", "machina.apps.forum_conversation"),
        "machina.apps.forum_conversation.forum_attachments",
        "machina.apps.forum_conversation.forum_polls",
        *("machina.apps.forum_feeds", "machina.apps.forum_moderation"),
        *("machina.apps.forum_search", "machina.apps.forum_tracking"),
        *("machina.apps.forum_member", "machina.apps.forum_permission"),
    ],
    HAYSTACK_CONNECTIONS={"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}},
    CACHES={
        name: {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
        for name in ("default", "machina_attachments")
    },
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    HELPDESK_TEAMS_MODE_ENABLED=False,
    SITE_ID=1,
    ROOT_URLCONF="helpdesk.urls",
    THUMBNAIL_HIGH_RESOLUTION=False,
)
django.setup()

from django.contrib.auth import get_user_model
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import call_command
from django.db import connection
from filer.models import File, Image
from helpdesk.models import (
    FollowUp,
    FollowUpAttachment,
    KBCategory,
    KBIAttachment,
    KBItem,
    Queue,
    RunSpec,
)
from machina.apps.forum.models import Forum
from machina.apps.forum_conversation.forum_attachments.models import Attachment
from machina.apps.forum_conversation.models import Post, Topic
from machina.apps.forum_member.models import ForumProfile
from PIL import Image as Picture


def picture(number: int, name: str) -> ContentFile:
    held = io.BytesIO()
    Picture.new("RGB", (40, 30), (number * 20 % 255, 80, 120)).save(held, "PNG")
    return ContentFile(held.getvalue(), name=name)


def paper(number: int, name: str) -> ContentFile:
    return ContentFile(b"paper %d\n" % number * 20, name=name)


def keys_of_thumbnails(image: Image) -> list[str]:
    below = f"filer_public_thumbnails/{image.file.name}"
    return [it.key for it in default_storage.bucket.objects.filter(Prefix=below)]


def main() -> None:
    call_command("migrate", verbosity=0)
    dead: dict[str, list[str]] = {}
    user = get_user_model()
    people = [user.objects.create(username=f"person{n}") for n in range(6)]

    queue = Queue.objects.create(title="Support", slug="support", allow_public_submission=True)
    attached = []
    for n in range(6):
        run_spec = RunSpec.objects.create(title=f"It is broken {n}", queue=queue)
        for m in range(2):
            said = FollowUp.objects.create(run_spec=run_spec, title="Comment", user=people[n])
            one = FollowUpAttachment(
                followup=said, filename="screenshot.png", mime_type="image/png"
            )
            one.file.save("screenshot.png", picture(n + m, "screenshot.png"))
            attached.append(one)
    category = KBCategory.objects.create(name="how", title="How", slug="how", description="…")
    for n in range(3):
        item = KBItem.objects.create(category=category, title=f"T{n}", question="?", answer="!")
        one = KBIAttachment(kbitem=item, filename=f"hand book {n}.pdf", mime_type="application/pdf")
        one.file.save(f"hand book {n}.pdf", paper(n, "hand book.pdf"))

    images = []
    for n in range(6):
        image = Image.objects.create(
            owner=people[0],
            original_filename=f"Über uns {n}.png",
            file=picture(n, f"Über uns {n}.png"),
            is_public=n != 5,
        )
        _ = image.icons
        images.append(image)
    for n in range(3):
        File.objects.create(original_filename=f"rules{n}.pdf", file=paper(n, f"rules{n}.pdf"))

    forum = Forum.objects.create(name="All", type=Forum.FORUM_POST)
    for n in range(3):
        forum.image.save(f"logo{n}.png", picture(n, "logo.png"))
    replaced = [key for key in stored("machina/forum_images/") if key != forum.image.name]
    dead["a logo that was replaced"] = replaced
    topic = Topic.objects.create(
        forum=forum, subject="Hello", poster=people[1], type=Topic.TOPIC_POST, status=0
    )
    shown = default_storage.save("forum/inline/garden plan.png", picture(1, "garden plan.png"))
    address = default_storage.url(shown)
    for n in range(4):
        text = f"Look: ![it]({address})" if n == 2 else "Hello there"
        post = Post.objects.create(topic=topic, poster=people[n], subject="Re", content=text)
        Attachment.objects.create(post=post, file=paper(n, f"notes {n}.txt"), comment="see")
    for person in people[:4]:
        profile, _made = ForumProfile.objects.get_or_create(user=person)
        profile.avatar.save("me.png", picture(person.pk, "me.png"))

    with connection.cursor() as cursor:
        dead["an attachment whose row SQL deleted"] = [it.file.name for it in attached[:3]]
        cursor.execute(
            "DELETE FROM helpdesk_followupattachment WHERE id = any(%s)",
            [[it.pk for it in attached[:3]]],
        )
        lost = images[0]
        dead["an image of the file manager whose row SQL deleted"] = [lost.file.name]
        dead["its thumbnails"] = keys_of_thumbnails(lost)
        cursor.execute("DELETE FROM filer_image WHERE file_ptr_id = %s", [lost.pk])
        cursor.execute("DELETE FROM filer_file WHERE id = %s", [lost.pk])
    dead["a crash before the row"] = [
        default_storage.save(f"machina/attachments/lost {n}.txt", paper(n, "lost.txt"))
        for n in range(2)
    ]
    document = json.dumps({"orphans": dead}, indent=1)
    (Path(os.environ["WORK"]) / "dead.json").write_text(document)


def stored(prefix: str) -> list[str]:
    return [f"{prefix}{name}" for name in default_storage.listdir(prefix)[1]]


main()
