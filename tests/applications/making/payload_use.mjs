// What the editors of a Payload did with its uploads, and what went wrong. Its Local API, no Next.
//
// One folder per collection, sizes of pictures, drafts whose file stands in a version alone.
import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const packages = createRequire(join(process.argv[2], "package.json"));
// What is ESM alone has no way for `require`: its file is found by the name of its folder.
const load = (name, file) =>
  import(pathToFileURL(join(process.argv[2], "node_modules", name, file)).href);
const { buildConfig, getPayload } = await load("payload", "dist/index.js");
const { postgresAdapter } = await load("@payloadcms/db-postgres", "dist/index.js");
const { s3Storage } = await load("@payloadcms/storage-s3", "dist/index.js");
const { S3, ListObjectsV2Command, PutObjectCommand } = packages("@aws-sdk/client-s3");
const sharp = packages("sharp");

const bucket = process.env.S3_BUCKET;
const s3 = {
  endpoint: process.env.S3_ENDPOINT,
  region: process.env.S3_REGION,
  forcePathStyle: true,
  credentials: { accessKeyId: process.env.S3_KEY, secretAccessKey: process.env.S3_SECRET },
};
const client = new S3(s3);

const config = buildConfig({
  secret: "not one",
  telemetry: false,
  db: postgresAdapter({ pool: { connectionString: process.env.DATABASE_URL }, push: true }),
  sharp,
  collections: [
    {
      slug: "media",
      fields: [{ name: "alt", type: "text" }],
      upload: {
        imageSizes: [
          { name: "thumbnail", width: 20, height: 15 },
          { name: "card", width: 30, height: 20 },
        ],
      },
      versions: { drafts: true },
    },
    { slug: "documents", fields: [{ name: "title", type: "text" }], upload: true },
    {
      slug: "articles",
      fields: [
        { name: "title", type: "text" },
        { name: "cover", type: "upload", relationTo: "media" },
        { name: "body", type: "textarea" },
      ],
      versions: { drafts: true },
    },
  ],
  plugins: [
    s3Storage({
      bucket,
      config: s3,
      collections: { media: { prefix: "media" }, documents: { prefix: "documents" } },
    }),
  ],
});
const payload = await getPayload({ config });

const picture = (number, type = "png") =>
  sharp({
    create: {
      width: 40,
      height: 30,
      channels: 3,
      background: { r: (number * 17) % 255, g: (number * 31) % 255, b: 80 },
    },
  })
    .toFormat(type)
    .toBuffer();
const asFile = (name, data, mimetype) => ({ name, data, mimetype, size: data.length });
const pictured = async (number, name = `picture ${number}.png`) =>
  asFile(name, await picture(number), "image/png");
const paper = (number) =>
  asFile(
    `paper ${number}.pdf`,
    Buffer.from(`%PDF-1.4\n${"x".repeat(50 + number)}\n%%EOF\n`),
    "application/pdf",
  );
const keys = async () =>
  ((await client.send(new ListObjectsV2Command({ Bucket: bucket }))).Contents ?? []).map(
    (entry) => entry.Key,
  );
const put = (Key, Body) => client.send(new PutObjectCommand({ Bucket: bucket, Key, Body }));
const sql = (statement, values) => payload.db.pool.query(statement, values);
const files = (doc, folder) =>
  [doc, ...Object.values(doc.sizes ?? {})]
    .map((one) => one?.filename)
    .filter(Boolean)
    .map((name) => `${folder}/${name}`);
// A published document keeps its status; a draft is a draft.
const media = async (number, data = {}, name = undefined) =>
  payload.create({
    collection: "media",
    data: { alt: `Picture ${number}`, _status: "published", ...data },
    file: await pictured(number, name),
  });

const pictures = [];
for (let number = 0; number < 10; number += 1) pictures.push(await media(number));
const papers = [];
for (let number = 0; number < 4; number += 1) {
  papers.push(
    await payload.create({
      collection: "documents",
      data: { title: `Paper ${number}` },
      file: paper(number),
    }),
  );
}
// Names that are taken get a number; a folder of its own stands in the row.
await media(20, {}, "picture 1.png");
await media(21, { prefix: "media/press" }, "Überblick (1).png");
// What the browser sends by itself lies in a folder of its own.
await media(22, { _objectKey: randomUUID() }, "by the browser.png");

// A replacement: Payload deletes what it had, and the version goes on naming it.
await payload.update({
  collection: "media",
  id: pictures[2].id,
  data: { _status: "published" },
  file: await pictured(30, "replaced.png"),
});
// A draft over what is published: its file stands in the version alone.
await payload.update({
  collection: "media",
  id: pictures[3].id,
  data: {},
  draft: true,
  file: await pictured(31, "next spring.png"),
});
await payload.create({
  collection: "media",
  data: { alt: "Unpublished", _status: "draft" },
  draft: true,
  file: await pictured(32, "unpublished.png"),
});
// By its own door it cleans up by itself.
await payload.delete({ collection: "media", id: pictures[4].id });
await payload.delete({ collection: "documents", id: papers[0].id });
await payload.create({
  collection: "articles",
  data: {
    title: "A walk",
    cover: pictures[5].id,
    body: `Look: ![it](/api/media/file/${encodeURIComponent(pictures[6].filename)})`,
    _status: "published",
  },
});

const dead = {};
// A draft that is given up: the older version names its file until versions are trimmed.
const before = new Set(await keys());
await payload.update({
  collection: "media",
  id: pictures[7].id,
  data: {},
  draft: true,
  file: await pictured(33, "given up.png"),
});
const drafted = (await keys()).filter((key) => !before.has(key));
await payload.delete({ collection: "media", id: pictures[7].id });
dead["a draft's file of a document that was deleted"] = drafted;

// The store fails when the document goes: the error is logged, the row is gone.
const remove = S3.prototype.deleteObject;
S3.prototype.deleteObject = () => Promise.reject(new Error("the store is away"));
await payload.delete({ collection: "media", id: pictures[8].id });
dead["the store was away when the document was deleted"] = files(pictures[8], "media");
S3.prototype.deleteObject = remove;

dead["rows that SQL deleted"] = files(pictures[9], "media");
const kept = { "of another collection, which is another entry": files(papers[1], "documents") };
await sql("DELETE FROM _media_v WHERE parent_id = $1", [pictures[9].id]);
await sql("DELETE FROM media WHERE id = $1", [pictures[9].id]);
await sql("DELETE FROM documents WHERE id = $1", [papers[1].id]);

const crashed = ["media/lost.png", `media/${randomUUID()}/sent by the browser.png`];
for (const key of crashed) await put(key, await picture(40));
dead["a crash before the row"] = crashed;

const there = new Set(await keys());
for (const [why, lost] of Object.entries({ ...dead, ...kept })) {
  const gone = lost.filter((key) => !there.has(key));
  if (gone.length || !lost.length) throw new Error(`${why}: ${JSON.stringify(lost)} not there`);
}
writeFileSync(join(process.env.WORK, "dead.json"), JSON.stringify({ orphans: dead, kept }));
process.exit(0);
