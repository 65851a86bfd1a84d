"""A shop with Wagtail beside it: files in S3 by django-storages, public below media/, private."""

import os

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
BACKEND = "storages.backends.s3.S3Storage"
STORAGES = {
    "default": {"BACKEND": BACKEND, "OPTIONS": {**S3, "location": "media"}},
    "private": {"BACKEND": BACKEND, "OPTIONS": {**S3, "location": "private"}},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
# sorl makes its storage of a class, and so from these.
AWS_STORAGE_BUCKET_NAME = S3["bucket_name"]
AWS_S3_ENDPOINT_URL = S3["endpoint_url"]
AWS_S3_ADDRESSING_STYLE = "path"
AWS_S3_FILE_OVERWRITE = False
AWS_QUERYSTRING_AUTH = False
AWS_LOCATION = "media"
THUMBNAIL_STORAGE = BACKEND
THUMBNAIL_PREFIX = "thumbs/"
THUMBNAIL_DEFAULT_STORAGE_ALIAS = "default"
THUMBNAIL_ALIASES = {"": {"small": {"size": (30, 30)}, "square": {"size": (20, 20), "crop": True}}}
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "app",
        "USER": "postgres",
        "HOST": "127.0.0.1",
        "PORT": os.environ["DATABASE_PORT"],
    }
}
INSTALLED_APPS = [
    "shop",
    *("wagtail", "wagtail.admin", "wagtail.documents", "wagtail.images", "wagtail.search"),
    *("wagtail.sites", "wagtail.snippets", "wagtail.users", "wagtail.embeds"),
    *("wagtail.contrib.forms", "wagtail.contrib.redirects", "modelcluster", "taggit"),
    *("easy_thumbnails", "sorl.thumbnail"),
    *("django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"),
    *("django.contrib.messages", "django.contrib.staticfiles", "django.contrib.admin"),
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
SECRET_KEY = "0" * 50
ALLOWED_HOSTS = ["*"]
USE_TZ = True
ROOT_URLCONF = "urls"
STATIC_URL = "/static/"
MEDIA_URL = "/media/"
WAGTAIL_SITE_NAME = "shop"
WAGTAILADMIN_BASE_URL = "http://127.0.0.1"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
