-- After the published schema of Outline, as far as it names files: outline/outline,
-- server/models/Attachment.ts (000b2f0), FileOperation.ts (054e3b8) and
-- helpers/AttachmentHelper.ts (23c90d3). Written by hand: names and rows are made up.
CREATE TABLE public."SequelizeMeta" (
    name character varying(255) PRIMARY KEY
);
CREATE TABLE public.teams (
    id uuid PRIMARY KEY,
    name character varying(255),
    "avatarUrl" character varying(4096)
);
CREATE TABLE public.users (
    id uuid PRIMARY KEY,
    name character varying(255) NOT NULL,
    "avatarUrl" character varying(4096),
    "teamId" uuid REFERENCES public.teams
);
CREATE TABLE public.documents (
    id uuid PRIMARY KEY,
    title character varying(255) NOT NULL,
    text text,
    "teamId" uuid,
    "createdAt" timestamp with time zone NOT NULL,
    "deletedAt" timestamp with time zone
);
CREATE TABLE public.attachments (
    id uuid PRIMARY KEY,
    "teamId" uuid NOT NULL,
    "userId" uuid NOT NULL,
    "documentId" uuid,
    key character varying(4096) NOT NULL,
    "contentType" character varying(255) NOT NULL,
    size bigint NOT NULL,
    acl character varying(255) DEFAULT 'public-read' NOT NULL,
    "lastAccessedAt" timestamp with time zone,
    "expiresAt" timestamp with time zone,
    "createdAt" timestamp with time zone NOT NULL,
    "updatedAt" timestamp with time zone NOT NULL
);
CREATE INDEX attachments_key ON public.attachments (key);
CREATE TABLE public.file_operations (
    id uuid PRIMARY KEY,
    type character varying(255) NOT NULL,
    state character varying(255) NOT NULL,
    key character varying(255),
    url character varying(255),
    error character varying(255),
    size bigint,
    format character varying(255),
    "userId" uuid NOT NULL,
    "teamId" uuid NOT NULL,
    "collectionId" uuid,
    options jsonb,
    "createdAt" timestamp with time zone NOT NULL,
    "updatedAt" timestamp with time zone NOT NULL,
    "deletedAt" timestamp with time zone
);
INSERT INTO public."SequelizeMeta" (name) VALUES
	('20160619080644-initial.js');
INSERT INTO public.teams (id, name, "avatarUrl") VALUES
	('56ec141e-6a09-4d11-9719-679c65ad3197', 'Garden', 'https://files.example.com/public/faca57ab-55ee-454c-a1c7-8fc4658c8035/7928a616-d74d-496e-a8a3-a5704324a42f/logo.png');
INSERT INTO public.users (id, name, "avatarUrl", "teamId") VALUES
	('b76325e2-aa54-429c-ab23-02dea464b625', 'Person 0', '/api/attachments.redirect?id=68f3f465-e1b5-4166-a2aa-8b8fc2ce247e', '56ec141e-6a09-4d11-9719-679c65ad3197'),
	('faca57ab-55ee-454c-a1c7-8fc4658c8035', 'Person 1', '/api/attachments.redirect?id=ff9430f4-e5e9-4368-a49f-079dcdc2d189', '56ec141e-6a09-4d11-9719-679c65ad3197'),
	('3c0f7e84-95d4-43a6-886d-1ec5e51d2959', 'Person 2', '/api/attachments.redirect?id=9b9abe04-3d35-496c-8158-20a5a28e0b7d', '56ec141e-6a09-4d11-9719-679c65ad3197'),
	('b08054db-a099-49ad-8ac7-cf63338d81b5', 'Person 3', 'https://files.example.com/avatars/b08054db-a099-49ad-8ac7-cf63338d81b5/43d27c0d-c3f0-4422-9ccd-f51cec87d3be', '56ec141e-6a09-4d11-9719-679c65ad3197');
INSERT INTO public.documents (id, title, text, "teamId", "createdAt", "deletedAt") VALUES
	('813953eb-2284-4588-89b2-1c7e03ee5c50', 'Page 0', '![](/api/attachments.redirect?id=2dd1b62c-00a8-4657-adb0-86068681a51c)', '56ec141e-6a09-4d11-9719-679c65ad3197', '2025-05-01 09:00:00+00', NULL),
	('6e3500f0-9329-4b9a-bb4c-057e985db3c4', 'Page 1', '![](/api/attachments.redirect?id=25df1fb7-8a5a-4f34-af75-c10b395250c3)', '56ec141e-6a09-4d11-9719-679c65ad3197', '2025-05-02 09:00:00+00', NULL),
	('051a77ac-ba7f-42b0-9ad8-a6e4b2cbe842', 'Page 2', '![](/api/attachments.redirect?id=802fc309-8ba7-4178-bcfb-69b8a2197b63)', '56ec141e-6a09-4d11-9719-679c65ad3197', '2025-05-03 09:00:00+00', NULL),
	('51058367-e4dd-4c07-bda3-b9780c5e9c7a', 'Page 3', '![](/api/attachments.redirect?id=5a83bd61-87a9-4ba1-9cc3-d47ffe4ec000)', '56ec141e-6a09-4d11-9719-679c65ad3197', '2025-05-04 09:00:00+00', NULL),
	('1ed6b41a-1c3f-41db-a0ea-1a621086ca94', 'Page 4', '![](/api/attachments.redirect?id=85a4a134-5907-4490-b8b8-3e89db929b4e)', '56ec141e-6a09-4d11-9719-679c65ad3197', '2025-05-05 09:00:00+00', NULL),
	('22c476d2-f878-4385-bcc3-4d65f508d2c7', 'Page 5', '![](/api/attachments.redirect?id=37133e01-f872-43ce-9975-00fe13cbbcbd)', '56ec141e-6a09-4d11-9719-679c65ad3197', '2025-05-06 09:00:00+00', '2025-05-09 09:00:00+00');
INSERT INTO public.attachments (id, "teamId", "userId", "documentId", key, "contentType", size, acl, "expiresAt", "createdAt", "updatedAt") VALUES
	('2dd1b62c-00a8-4657-adb0-86068681a51c', '56ec141e-6a09-4d11-9719-679c65ad3197', 'b76325e2-aa54-429c-ab23-02dea464b625', '813953eb-2284-4588-89b2-1c7e03ee5c50', 'uploads/b76325e2-aa54-429c-ab23-02dea464b625/2dd1b62c-00a8-4657-adb0-86068681a51c/image 0.png', 'image/png', 900, 'private', NULL, '2025-05-01 09:00:00+00', '2025-05-01 09:00:00+00'),
	('25df1fb7-8a5a-4f34-af75-c10b395250c3', '56ec141e-6a09-4d11-9719-679c65ad3197', 'faca57ab-55ee-454c-a1c7-8fc4658c8035', '6e3500f0-9329-4b9a-bb4c-057e985db3c4', 'uploads/faca57ab-55ee-454c-a1c7-8fc4658c8035/25df1fb7-8a5a-4f34-af75-c10b395250c3/image 1.png', 'image/png', 900, 'private', NULL, '2025-05-02 09:00:00+00', '2025-05-02 09:00:00+00'),
	('802fc309-8ba7-4178-bcfb-69b8a2197b63', '56ec141e-6a09-4d11-9719-679c65ad3197', '3c0f7e84-95d4-43a6-886d-1ec5e51d2959', '051a77ac-ba7f-42b0-9ad8-a6e4b2cbe842', 'uploads/3c0f7e84-95d4-43a6-886d-1ec5e51d2959/802fc309-8ba7-4178-bcfb-69b8a2197b63/image 2.png', 'image/png', 900, 'private', NULL, '2025-05-03 09:00:00+00', '2025-05-03 09:00:00+00'),
	('5a83bd61-87a9-4ba1-9cc3-d47ffe4ec000', '56ec141e-6a09-4d11-9719-679c65ad3197', 'b08054db-a099-49ad-8ac7-cf63338d81b5', '51058367-e4dd-4c07-bda3-b9780c5e9c7a', 'uploads/b08054db-a099-49ad-8ac7-cf63338d81b5/5a83bd61-87a9-4ba1-9cc3-d47ffe4ec000/image 3.png', 'image/png', 900, 'private', NULL, '2025-05-04 09:00:00+00', '2025-05-04 09:00:00+00'),
	('eb2f59d7-f50d-4545-bf0b-528bd6ee47a8', '56ec141e-6a09-4d11-9719-679c65ad3197', 'b76325e2-aa54-429c-ab23-02dea464b625', '1ed6b41a-1c3f-41db-a0ea-1a621086ca94', 'uploads/b76325e2-aa54-429c-ab23-02dea464b625/eb2f59d7-f50d-4545-bf0b-528bd6ee47a8/image 4.png', 'image/png', 900, 'private', NULL, '2025-05-05 09:00:00+00', '2025-05-05 09:00:00+00'),
	('37133e01-f872-43ce-9975-00fe13cbbcbd', '56ec141e-6a09-4d11-9719-679c65ad3197', 'faca57ab-55ee-454c-a1c7-8fc4658c8035', '22c476d2-f878-4385-bcc3-4d65f508d2c7', 'uploads/faca57ab-55ee-454c-a1c7-8fc4658c8035/37133e01-f872-43ce-9975-00fe13cbbcbd/image 5.png', 'image/png', 900, 'private', NULL, '2025-05-06 09:00:00+00', '2025-05-06 09:00:00+00'),
	('e2166948-f8d9-4653-b7ae-1f2eda69ca88', '56ec141e-6a09-4d11-9719-679c65ad3197', '3c0f7e84-95d4-43a6-886d-1ec5e51d2959', '813953eb-2284-4588-89b2-1c7e03ee5c50', 'uploads/3c0f7e84-95d4-43a6-886d-1ec5e51d2959/e2166948-f8d9-4653-b7ae-1f2eda69ca88/image 6.png', 'image/png', 900, 'private', NULL, '2025-05-07 09:00:00+00', '2025-05-07 09:00:00+00'),
	('45e18c86-1288-4989-bb3c-ec3139557226', '56ec141e-6a09-4d11-9719-679c65ad3197', 'b08054db-a099-49ad-8ac7-cf63338d81b5', '6e3500f0-9329-4b9a-bb4c-057e985db3c4', 'uploads/b08054db-a099-49ad-8ac7-cf63338d81b5/45e18c86-1288-4989-bb3c-ec3139557226/image 7.png', 'image/png', 900, 'private', NULL, '2025-05-08 09:00:00+00', '2025-05-08 09:00:00+00'),
	('43bffd76-03e4-4d26-ad5e-449eb41dfe5e', '56ec141e-6a09-4d11-9719-679c65ad3197', 'b76325e2-aa54-429c-ab23-02dea464b625', '051a77ac-ba7f-42b0-9ad8-a6e4b2cbe842', 'uploads/b76325e2-aa54-429c-ab23-02dea464b625/43bffd76-03e4-4d26-ad5e-449eb41dfe5e/image 8.png', 'image/png', 900, 'private', NULL, '2025-05-09 09:00:00+00', '2025-05-09 09:00:00+00'),
	('0b0ead10-f761-401b-91a4-cb7a44dd6f2c', '56ec141e-6a09-4d11-9719-679c65ad3197', 'faca57ab-55ee-454c-a1c7-8fc4658c8035', '51058367-e4dd-4c07-bda3-b9780c5e9c7a', 'uploads/faca57ab-55ee-454c-a1c7-8fc4658c8035/0b0ead10-f761-401b-91a4-cb7a44dd6f2c/image 9.png', 'image/png', 900, 'private', NULL, '2025-05-10 09:00:00+00', '2025-05-10 09:00:00+00'),
	('687ab5cb-0c40-47d2-823d-8678324a5372', '56ec141e-6a09-4d11-9719-679c65ad3197', '3c0f7e84-95d4-43a6-886d-1ec5e51d2959', '1ed6b41a-1c3f-41db-a0ea-1a621086ca94', 'uploads/3c0f7e84-95d4-43a6-886d-1ec5e51d2959/687ab5cb-0c40-47d2-823d-8678324a5372/image 10.png', 'image/png', 900, 'private', NULL, '2025-05-11 09:00:00+00', '2025-05-11 09:00:00+00'),
	('5cd40003-f3b1-48f7-8e7e-a28cca1de763', '56ec141e-6a09-4d11-9719-679c65ad3197', 'b08054db-a099-49ad-8ac7-cf63338d81b5', '22c476d2-f878-4385-bcc3-4d65f508d2c7', 'uploads/b08054db-a099-49ad-8ac7-cf63338d81b5/5cd40003-f3b1-48f7-8e7e-a28cca1de763/image 11.png', 'image/png', 900, 'private', NULL, '2025-05-12 09:00:00+00', '2025-05-12 09:00:00+00'),
	('b02a3b27-5361-4ba4-82b6-08f44467bd54', '56ec141e-6a09-4d11-9719-679c65ad3197', 'b76325e2-aa54-429c-ab23-02dea464b625', '813953eb-2284-4588-89b2-1c7e03ee5c50', 'uploads/b76325e2-aa54-429c-ab23-02dea464b625/b02a3b27-5361-4ba4-82b6-08f44467bd54/image 12.png', 'image/png', 900, 'private', NULL, '2025-05-13 09:00:00+00', '2025-05-13 09:00:00+00'),
	('8b419721-7428-40f0-a732-82be0a99b2dd', '56ec141e-6a09-4d11-9719-679c65ad3197', 'faca57ab-55ee-454c-a1c7-8fc4658c8035', '6e3500f0-9329-4b9a-bb4c-057e985db3c4', 'uploads/faca57ab-55ee-454c-a1c7-8fc4658c8035/8b419721-7428-40f0-a732-82be0a99b2dd/image 13.png', 'image/png', 900, 'private', NULL, '2025-05-14 09:00:00+00', '2025-05-14 09:00:00+00'),
	('b0b6b765-54ac-465e-8c7e-d09e483a17de', '56ec141e-6a09-4d11-9719-679c65ad3197', '3c0f7e84-95d4-43a6-886d-1ec5e51d2959', '051a77ac-ba7f-42b0-9ad8-a6e4b2cbe842', 'uploads/3c0f7e84-95d4-43a6-886d-1ec5e51d2959/b0b6b765-54ac-465e-8c7e-d09e483a17de/image 14.png', 'image/png', 900, 'private', NULL, '2025-05-15 09:00:00+00', '2025-05-15 09:00:00+00'),
	('dfc34c1f-fe4b-45d3-bb7c-096b690e3666', '56ec141e-6a09-4d11-9719-679c65ad3197', 'b08054db-a099-49ad-8ac7-cf63338d81b5', '51058367-e4dd-4c07-bda3-b9780c5e9c7a', 'uploads/b08054db-a099-49ad-8ac7-cf63338d81b5/dfc34c1f-fe4b-45d3-bb7c-096b690e3666/image 15.png', 'image/png', 900, 'private', NULL, '2025-05-16 09:00:00+00', '2025-05-16 09:00:00+00'),
	('66376b92-44c2-4dc5-b7bf-1af9bec9ffc9', '56ec141e-6a09-4d11-9719-679c65ad3197', 'b76325e2-aa54-429c-ab23-02dea464b625', '1ed6b41a-1c3f-41db-a0ea-1a621086ca94', 'uploads/b76325e2-aa54-429c-ab23-02dea464b625/66376b92-44c2-4dc5-b7bf-1af9bec9ffc9/image 16.png', 'image/png', 900, 'private', NULL, '2025-05-17 09:00:00+00', '2025-05-17 09:00:00+00'),
	('6b4d5b9d-8a3d-4a9d-9179-d5076c05af54', '56ec141e-6a09-4d11-9719-679c65ad3197', 'faca57ab-55ee-454c-a1c7-8fc4658c8035', '22c476d2-f878-4385-bcc3-4d65f508d2c7', 'uploads/faca57ab-55ee-454c-a1c7-8fc4658c8035/6b4d5b9d-8a3d-4a9d-9179-d5076c05af54/image 17.png', 'image/png', 900, 'private', NULL, '2025-05-18 09:00:00+00', '2025-05-18 09:00:00+00'),
	('631784f7-26b7-4d36-b912-5b64620ab0ff', '56ec141e-6a09-4d11-9719-679c65ad3197', '3c0f7e84-95d4-43a6-886d-1ec5e51d2959', '813953eb-2284-4588-89b2-1c7e03ee5c50', 'uploads/3c0f7e84-95d4-43a6-886d-1ec5e51d2959/631784f7-26b7-4d36-b912-5b64620ab0ff/Größe & Maß.pdf', 'image/png', 900, 'private', NULL, '2025-05-19 09:00:00+00', '2025-05-19 09:00:00+00'),
	('68f3f465-e1b5-4166-a2aa-8b8fc2ce247e', '56ec141e-6a09-4d11-9719-679c65ad3197', 'b08054db-a099-49ad-8ac7-cf63338d81b5', NULL, 'uploads/b08054db-a099-49ad-8ac7-cf63338d81b5/68f3f465-e1b5-4166-a2aa-8b8fc2ce247e/avatar0.png', 'image/png', 900, 'private', NULL, '2025-05-20 09:00:00+00', '2025-05-20 09:00:00+00'),
	('ff9430f4-e5e9-4368-a49f-079dcdc2d189', '56ec141e-6a09-4d11-9719-679c65ad3197', 'b76325e2-aa54-429c-ab23-02dea464b625', NULL, 'uploads/b76325e2-aa54-429c-ab23-02dea464b625/ff9430f4-e5e9-4368-a49f-079dcdc2d189/avatar1.png', 'image/png', 900, 'private', NULL, '2025-05-21 09:00:00+00', '2025-05-21 09:00:00+00'),
	('9b9abe04-3d35-496c-8158-20a5a28e0b7d', '56ec141e-6a09-4d11-9719-679c65ad3197', 'faca57ab-55ee-454c-a1c7-8fc4658c8035', NULL, 'uploads/faca57ab-55ee-454c-a1c7-8fc4658c8035/9b9abe04-3d35-496c-8158-20a5a28e0b7d/avatar2.png', 'image/png', 900, 'private', NULL, '2025-05-22 09:00:00+00', '2025-05-22 09:00:00+00'),
	('4131bf70-fd17-4cd1-ad20-ea498044e81e', '56ec141e-6a09-4d11-9719-679c65ad3197', '3c0f7e84-95d4-43a6-886d-1ec5e51d2959', NULL, 'uploads/3c0f7e84-95d4-43a6-886d-1ec5e51d2959/4131bf70-fd17-4cd1-ad20-ea498044e81e/pasted and removed.png', 'image/png', 900, 'private', NULL, '2025-05-23 09:00:00+00', '2025-05-23 09:00:00+00'),
	('6080fc6a-bae1-4516-9c64-72c0b1940b43', '56ec141e-6a09-4d11-9719-679c65ad3197', 'b08054db-a099-49ad-8ac7-cf63338d81b5', NULL, 'uploads/b08054db-a099-49ad-8ac7-cf63338d81b5/6080fc6a-bae1-4516-9c64-72c0b1940b43/import.zip', 'image/png', 900, 'private', '2025-05-30 10:00:00+00', '2025-05-24 09:00:00+00', '2025-05-24 09:00:00+00'),
	('32cbb279-d357-4eb4-bda2-93e2fdb2fa42', '56ec141e-6a09-4d11-9719-679c65ad3197', 'b76325e2-aa54-429c-ab23-02dea464b625', '6e3500f0-9329-4b9a-bb4c-057e985db3c4', 'uploads/b76325e2-aa54-429c-ab23-02dea464b625/32cbb279-d357-4eb4-bda2-93e2fdb2fa42/never sent.mov', 'image/png', 900, 'private', NULL, '2025-05-25 09:00:00+00', '2025-05-25 09:00:00+00');
INSERT INTO public.file_operations (id, type, state, key, size, "userId", "teamId", format, "createdAt", "updatedAt", "deletedAt") VALUES
	('e894d345-089d-47b3-88b2-15ac9eeee2fe', 'export', 'complete', 'uploads/56ec141e-6a09-4d11-9719-679c65ad3197/d7d29ac4-1639-4351-9dbd-03e2a9d6587c/export-2025-05-10.zip', 5000, 'b76325e2-aa54-429c-ab23-02dea464b625', '56ec141e-6a09-4d11-9719-679c65ad3197', 'outline-markdown', '2025-05-10 09:00:00+00', '2025-05-10 09:00:00+00', NULL),
	('a56ee7be-af52-44b9-930a-19a38efb1fa3', 'import', 'complete', 'uploads/56ec141e-6a09-4d11-9719-679c65ad3197/b1b664f3-67e3-4769-8cac-b078b766b4d4/import-2025-05-11.zip', 5000, 'b76325e2-aa54-429c-ab23-02dea464b625', '56ec141e-6a09-4d11-9719-679c65ad3197', 'outline-markdown', '2025-05-10 09:00:00+00', '2025-05-10 09:00:00+00', NULL),
	('003d1921-93e4-47b7-b8bb-a24a749b4142', 'export', 'creating', 'uploads/56ec141e-6a09-4d11-9719-679c65ad3197/50cc390a-ab02-458c-8c87-df527142dbc4/export-2025-05-12.zip', 5000, 'b76325e2-aa54-429c-ab23-02dea464b625', '56ec141e-6a09-4d11-9719-679c65ad3197', 'outline-markdown', '2025-05-10 09:00:00+00', '2025-05-10 09:00:00+00', NULL),
	('97a09289-57a4-46e5-8297-d4977879bf39', 'export', 'expired', 'uploads/56ec141e-6a09-4d11-9719-679c65ad3197/da7d30bb-a5b7-4b73-bf07-62fe793556ef/export-2025-05-13.zip', 5000, 'b76325e2-aa54-429c-ab23-02dea464b625', '56ec141e-6a09-4d11-9719-679c65ad3197', 'outline-markdown', '2025-05-10 09:00:00+00', '2025-05-10 09:00:00+00', NULL),
	('be494976-ca97-4c9d-a127-cca8d332991e', 'export', 'expired', 'uploads/56ec141e-6a09-4d11-9719-679c65ad3197/3c03e703-6140-469e-bea7-da0e8bd272c1/export-2025-05-14.zip', 5000, 'b76325e2-aa54-429c-ab23-02dea464b625', '56ec141e-6a09-4d11-9719-679c65ad3197', 'outline-markdown', '2025-05-10 09:00:00+00', '2025-05-10 09:00:00+00', '2025-05-25 09:00:00+00'),
	('86b8e98f-f9d6-4749-a4bd-fac1106a08a6', 'export', 'expired', 'uploads/56ec141e-6a09-4d11-9719-679c65ad3197/b650f773-5aee-46d0-a0fb-5ff8de93483e/export-2025-05-15.zip', 5000, 'b76325e2-aa54-429c-ab23-02dea464b625', '56ec141e-6a09-4d11-9719-679c65ad3197', 'outline-markdown', '2025-05-10 09:00:00+00', '2025-05-10 09:00:00+00', NULL);
