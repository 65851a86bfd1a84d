// What the editors of a Strapi did with its media library, and what went wrong. No admin panel.
"use strict";

const { randomBytes } = require("node:crypto");
const { cpSync, mkdirSync, symlinkSync, writeFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const { join, resolve } = require("node:path");

const { DATABASE_PORT, S3_BUCKET, S3_ENDPOINT, S3_KEY, S3_REGION, S3_SECRET, WORK } = process.env;
const packages = createRequire(join(resolve(process.argv[2]), "package.json"));
const sharp = packages("sharp");
const { S3, ListObjectsV2Command } = packages("@aws-sdk/client-s3");

const s3 = {
  endpoint: S3_ENDPOINT,
  region: S3_REGION,
  forcePathStyle: true,
  credentials: { accessKeyId: S3_KEY, secretAccessKey: S3_SECRET },
};
const client = new S3(s3);
const FOLDER = "cms";
const BASE = `${S3_ENDPOINT}/${S3_BUCKET}`;

const app = join(WORK, "app");
const written = (path, said) => {
  mkdirSync(join(app, path, ".."), { recursive: true });
  writeFileSync(join(app, path), said);
};
const exported = (path, said) => written(path, `module.exports = ${JSON.stringify(said)};\n`);

mkdirSync(app, { recursive: true });
symlinkSync(join(resolve(process.argv[2]), "node_modules"), join(app, "node_modules"));
cpSync(join(resolve(process.argv[2]), "package.json"), join(app, "package.json"));
const connection = { host: "127.0.0.1", port: +DATABASE_PORT, database: "app", user: "postgres" };
exported("config/database.js", {
  connection: { client: "postgres", connection: { ...connection, password: "x" } },
});
exported("config/server.js", { host: "127.0.0.1", port: 1, app: { keys: ["not one"] } });
exported("config/admin.js", {
  serveAdminPanel: false,
  auth: { secret: "not one" },
  apiToken: { salt: "not one" },
  transfer: { token: { salt: "not one" } },
});
exported(
  "config/middlewares.js",
  ["errors", "security", "cors", "query", "body", "public", "favicon"].map((it) => `strapi::${it}`),
);
exported("config/plugins.js", {
  upload: {
    config: {
      provider: "aws-s3",
      providerOptions: {
        baseUrl: BASE,
        rootPath: FOLDER,
        s3Options: { ...s3, params: { Bucket: S3_BUCKET } },
      },
      breakpoints: { small: 20, medium: 30 },
    },
  },
});
exported("src/index.js", {});
const article = {
  kind: "collectionType",
  collectionName: "articles",
  info: { singularName: "article", pluralName: "articles", displayName: "Article" },
  options: { draftAndPublish: true },
  attributes: {
    title: { type: "string" },
    body: { type: "richtext" },
    cover: { type: "media", multiple: false, allowedTypes: ["images"] },
    gallery: { type: "media", multiple: true, allowedTypes: ["images", "files"] },
  },
};
written("src/api/article/content-types/article/schema.json", JSON.stringify(article));
written(
  "src/api/article/services/article.js",
  'module.exports = require("@strapi/strapi").factories.createCoreService("api::article.article");\n',
);

const keys = async () =>
  ((await client.send(new ListObjectsV2Command({ Bucket: S3_BUCKET }))).Contents ?? []).map(
    (entry) => entry.Key,
  );
const picture = (number) =>
  sharp({
    create: {
      width: 300,
      height: 200,
      channels: 3,
      background: { r: (number * 17) % 255, g: (number * 31) % 255, b: 80 },
    },
  })
    .png()
    .toBuffer();

const files = (file) =>
  [file, ...Object.values(file.formats ?? {})].map((one) => one.url.slice(BASE.length + 1));

async function use(strapi) {
  const uploads = strapi.plugin("upload").service("upload");
  const asFile = (name, body, type) => {
    const filepath = join(WORK, `${randomBytes(6).toString("hex")}`);
    writeFileSync(filepath, body);
    return { filepath, originalFilename: name, mimetype: type, size: body.length };
  };
  const upload = async (name, body, type, said = {}) => {
    const [file] = await uploads.upload({
      data: { fileInfo: { name, ...said } },
      files: asFile(name, body, type),
    });
    return file;
  };
  const pictured = async (number, name = `Picture ${number}.png`, said = {}) =>
    upload(name, await picture(number), "image/png", said);
  const paper = (number) =>
    upload(`paper ${number}.pdf`, Buffer.from(`%PDF-1.4\n${"x".repeat(number + 40)}`), "application/pdf");
  const bySql = (file) =>
    strapi.db.connection.raw("DELETE FROM files WHERE id = ?", [file.id]);

  const pictures = [];
  for (let number = 0; number < 8; number += 1) pictures.push(await pictured(number));
  const papers = [];
  for (let number = 0; number < 4; number += 1) papers.push(await paper(number));
  await pictured(20, "Über uns (groß) & mehr.png");
  const folder = await strapi.plugin("upload").service("folder").setPathIdAndPath({ name: "Press" });
  const press = await strapi.db.query("plugin::upload.folder").create({ data: folder });
  await pictured(21, "press.png", { folder: press.id });

  // A replacement keeps the key of the file.
  await uploads.replace(pictures[0].id, {
    data: { fileInfo: { name: "Replaced.png" } },
    file: asFile("Replaced.png", await picture(40), "image/png"),
  });
  // By its own door it cleans up by itself.
  await uploads.remove(pictures[1]);
  await uploads.remove(papers[0]);
  const said = {
    title: "A walk",
    cover: pictures[2].id,
    gallery: [pictures[3].id, papers[1].id],
    body: `Look: ![it](${pictures[4].url})`,
  };
  const documents = strapi.documents("api::article.article");
  const walk = await documents.create({ data: said, status: "published" });
  await documents.update({ documentId: walk.documentId, data: { cover: pictures[5].id } });

  // The panel's own pictures have no row among the files.
  const settings = strapi.service("admin::project-settings");
  for (const name of ["before.png", "menu.png"]) {
    const logos = await settings.parseFilesData({
      menuLogo: asFile(name, await picture(60), "image/png"),
    });
    await settings.updateProjectSettings({ ...(await settings.getProjectSettings()), ...logos });
  }

  const dead = {};
  dead["rows that SQL deleted"] = [...files(pictures[6]), ...files(papers[2])];
  await bySql(pictures[6]);
  await bySql(papers[2]);
  // Lifecycles and scripts that delete by the query engine leave the object.
  dead["deleted by the query engine"] = files(pictures[7]);
  await strapi.db.query("plugin::upload.file").delete({ where: { id: pictures[7].id } });

  // The database goes away after the objects were written.
  const before = new Set(await keys());
  const query = strapi.db.query;
  strapi.db.query = (uid) => {
    if (uid !== "plugin::upload.file") return query.call(strapi.db, uid);
    throw new Error("the database is away");
  };
  await pictured(50, "no row.png").catch(() => undefined);
  strapi.db.query = query;
  const lost = (await keys()).filter((key) => !before.has(key));
  dead["a crash before the row"] = lost;

  const there = new Set(await keys());
  for (const [why, gone] of Object.entries(dead)) {
    if (!gone.length || gone.some((key) => !there.has(key)))
      throw new Error(`${why}: ${JSON.stringify(gone)} not there`);
  }
  // Of the settings, nothing else names a file.
  await strapi.db.connection.raw(
    "DELETE FROM strapi_core_store_settings WHERE key <> 'core_admin_project-settings'",
  );
  writeFileSync(join(WORK, "dead.json"), JSON.stringify({ orphans: dead }));
}

async function main() {
  process.chdir(app);
  const { createStrapi } = packages("@strapi/strapi");
  const strapi = await createStrapi({ appDir: app, distDir: app }).load();
  await use(strapi);
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
