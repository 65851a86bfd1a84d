-- After the published schema of Mattermost, as far as it names files: mattermost/mattermost,
-- server/channels/db/migrations/postgres 000041 (45b3110) and 000047 (452bc67); keys by
-- server/channels/app/upload.go (04cccb2). Written by hand: names and rows are made up.
CREATE TABLE public.db_migrations (
    version bigint PRIMARY KEY,
    name character varying NOT NULL
);
CREATE TABLE public.systems (
    name character varying(64) PRIMARY KEY,
    value character varying(1024)
);
CREATE TABLE public.posts (
    id character varying(26) PRIMARY KEY,
    createat bigint,
    deleteat bigint,
    message character varying(65535),
    fileids character varying(300)
);
CREATE TABLE public.fileinfo (
    id character varying(26) PRIMARY KEY,
    creatorid character varying(26),
    postid character varying(26),
    channelid character varying(26),
    createat bigint,
    updateat bigint,
    deleteat bigint,
    path character varying(512),
    thumbnailpath character varying(512),
    previewpath character varying(512),
    name character varying(256),
    extension character varying(64),
    size bigint,
    mimetype character varying(256),
    width integer,
    height integer,
    haspreviewimage boolean,
    minipreview bytea,
    content text,
    remoteid character varying(26),
    archived boolean DEFAULT false NOT NULL
);
CREATE TABLE public.uploadsessions (
    id character varying(26) PRIMARY KEY,
    type character varying(32),
    createat bigint,
    userid character varying(26),
    channelid character varying(26),
    filename character varying(256),
    path character varying(512),
    filesize bigint,
    fileoffset bigint,
    remoteid character varying(26),
    reqfileid character varying(26)
);
INSERT INTO public.db_migrations (version, name) VALUES
	(1, 'create_teams'),
	(47, 'create_file_info');
INSERT INTO public.systems (name, value) VALUES
	('Version', '5.38.0');
INSERT INTO public.fileinfo (id, creatorid, postid, createat, deleteat, path, thumbnailpath, previewpath, name, extension, size) VALUES
	('73hppdm58der9myk9q1pkjpg7g', '6qjrzpkzxmj7mnwaz584joagzs', 'cfd4qoh5jdenkh1qwjuowpjq3n', 1746090000000, 0, '20250510/teams/noteam/channels/9eyqc3n1ia78fqryg9fp7dci6d/users/6qjrzpkzxmj7mnwaz584joagzs/73hppdm58der9myk9q1pkjpg7g/photo 0.png', '20250510/teams/noteam/channels/9eyqc3n1ia78fqryg9fp7dci6d/users/6qjrzpkzxmj7mnwaz584joagzs/73hppdm58der9myk9q1pkjpg7g/photo 0_thumb.jpeg', '20250510/teams/noteam/channels/9eyqc3n1ia78fqryg9fp7dci6d/users/6qjrzpkzxmj7mnwaz584joagzs/73hppdm58der9myk9q1pkjpg7g/photo 0_preview.jpeg', 'photo 0.png', 'png', 900),
	('waj1qfc7jm5i38ns8pr19sb9fc', 'uhft31h8h6mjyez9xziaobcyod', '9tufce6tqungyscjudmish6xiz', 1746090000001, 0, '20250511/teams/noteam/channels/4e4djwicymtofwaou34duuxa5o/users/uhft31h8h6mjyez9xziaobcyod/waj1qfc7jm5i38ns8pr19sb9fc/photo 1.png', '20250511/teams/noteam/channels/4e4djwicymtofwaou34duuxa5o/users/uhft31h8h6mjyez9xziaobcyod/waj1qfc7jm5i38ns8pr19sb9fc/photo 1_thumb.jpeg', '20250511/teams/noteam/channels/4e4djwicymtofwaou34duuxa5o/users/uhft31h8h6mjyez9xziaobcyod/waj1qfc7jm5i38ns8pr19sb9fc/photo 1_preview.jpeg', 'photo 1.png', 'png', 900),
	('m8ur7g8k37nnng4e4srzkzkfiy', 'mutwoxohf9fce51znhazn145os', '6ujoggx8j9t8w7xknozc13pexx', 1746090000002, 0, '20250512/teams/noteam/channels/ucedpz79jzic7dwyr4wntqh1cp/users/mutwoxohf9fce51znhazn145os/m8ur7g8k37nnng4e4srzkzkfiy/photo 2.png', '20250512/teams/noteam/channels/ucedpz79jzic7dwyr4wntqh1cp/users/mutwoxohf9fce51znhazn145os/m8ur7g8k37nnng4e4srzkzkfiy/photo 2_thumb.jpeg', '20250512/teams/noteam/channels/ucedpz79jzic7dwyr4wntqh1cp/users/mutwoxohf9fce51znhazn145os/m8ur7g8k37nnng4e4srzkzkfiy/photo 2_preview.jpeg', 'photo 2.png', 'png', 900),
	('gygd9pqfkjob53818fpqxdxrig', 'xaeczrpirfha349bg77546mrh3', 'npmuif7myw44nfxjkjsepcqiry', 1746090000003, 0, '20250513/teams/noteam/channels/9eyqc3n1ia78fqryg9fp7dci6d/users/xaeczrpirfha349bg77546mrh3/gygd9pqfkjob53818fpqxdxrig/photo 3.png', '20250513/teams/noteam/channels/9eyqc3n1ia78fqryg9fp7dci6d/users/xaeczrpirfha349bg77546mrh3/gygd9pqfkjob53818fpqxdxrig/photo 3_thumb.jpeg', '20250513/teams/noteam/channels/9eyqc3n1ia78fqryg9fp7dci6d/users/xaeczrpirfha349bg77546mrh3/gygd9pqfkjob53818fpqxdxrig/photo 3_preview.jpeg', 'photo 3.png', 'png', 900),
	('6n9irrcdz4fsk99eoud7k5au8r', '6qjrzpkzxmj7mnwaz584joagzs', 'oqxc7x9d33ia3fqi5uyu9b8644', 1746090000004, 0, '20250514/teams/noteam/channels/4e4djwicymtofwaou34duuxa5o/users/6qjrzpkzxmj7mnwaz584joagzs/6n9irrcdz4fsk99eoud7k5au8r/photo 4.png', '20250514/teams/noteam/channels/4e4djwicymtofwaou34duuxa5o/users/6qjrzpkzxmj7mnwaz584joagzs/6n9irrcdz4fsk99eoud7k5au8r/photo 4_thumb.jpeg', '20250514/teams/noteam/channels/4e4djwicymtofwaou34duuxa5o/users/6qjrzpkzxmj7mnwaz584joagzs/6n9irrcdz4fsk99eoud7k5au8r/photo 4_preview.jpeg', 'photo 4.png', 'png', 900),
	('u7jipfs37n1iftmh4x8pnamati', 'uhft31h8h6mjyez9xziaobcyod', 'jzkqs3u9wck3yymgx7osgaeo4r', 1746090000005, 0, '20250515/teams/noteam/channels/ucedpz79jzic7dwyr4wntqh1cp/users/uhft31h8h6mjyez9xziaobcyod/u7jipfs37n1iftmh4x8pnamati/photo 5.png', '20250515/teams/noteam/channels/ucedpz79jzic7dwyr4wntqh1cp/users/uhft31h8h6mjyez9xziaobcyod/u7jipfs37n1iftmh4x8pnamati/photo 5_thumb.jpeg', '20250515/teams/noteam/channels/ucedpz79jzic7dwyr4wntqh1cp/users/uhft31h8h6mjyez9xziaobcyod/u7jipfs37n1iftmh4x8pnamati/photo 5_preview.jpeg', 'photo 5.png', 'png', 900),
	('iht1zuad99zbd8ahuj7nw6eytj', 'mutwoxohf9fce51znhazn145os', 'cn3mtx1b44fa9ztwk9dsecdkuk', 1746090000006, 0, '20250516/teams/noteam/channels/9eyqc3n1ia78fqryg9fp7dci6d/users/mutwoxohf9fce51znhazn145os/iht1zuad99zbd8ahuj7nw6eytj/photo 6.png', '20250516/teams/noteam/channels/9eyqc3n1ia78fqryg9fp7dci6d/users/mutwoxohf9fce51znhazn145os/iht1zuad99zbd8ahuj7nw6eytj/photo 6_thumb.jpeg', '20250516/teams/noteam/channels/9eyqc3n1ia78fqryg9fp7dci6d/users/mutwoxohf9fce51znhazn145os/iht1zuad99zbd8ahuj7nw6eytj/photo 6_preview.jpeg', 'photo 6.png', 'png', 900),
	('uduazmtu6cwh3goz3wa6t8ph4k', 'xaeczrpirfha349bg77546mrh3', 'wnjt64rt3z318ohynuszoxrg48', 1746090000007, 0, '20250517/teams/noteam/channels/4e4djwicymtofwaou34duuxa5o/users/xaeczrpirfha349bg77546mrh3/uduazmtu6cwh3goz3wa6t8ph4k/photo 7.png', '20250517/teams/noteam/channels/4e4djwicymtofwaou34duuxa5o/users/xaeczrpirfha349bg77546mrh3/uduazmtu6cwh3goz3wa6t8ph4k/photo 7_thumb.jpeg', '20250517/teams/noteam/channels/4e4djwicymtofwaou34duuxa5o/users/xaeczrpirfha349bg77546mrh3/uduazmtu6cwh3goz3wa6t8ph4k/photo 7_preview.jpeg', 'photo 7.png', 'png', 900),
	('ukm833i339ismj41epir4ryx53', '6qjrzpkzxmj7mnwaz584joagzs', 'ptejqx81na1eatrtpqugzfzbr8', 1746090000008, 0, '20250410/teams/noteam/channels/9eyqc3n1ia78fqryg9fp7dci6d/users/6qjrzpkzxmj7mnwaz584joagzs/ukm833i339ismj41epir4ryx53/report0.pdf', '', '', 'report0.pdf', 'pdf', 900),
	('wpy7ehtdhnn786q1iiqpp1bqmb', 'uhft31h8h6mjyez9xziaobcyod', 't5zrtf83a4qdzior6e577cic83', 1746090000009, 0, '20250411/teams/noteam/channels/4e4djwicymtofwaou34duuxa5o/users/uhft31h8h6mjyez9xziaobcyod/wpy7ehtdhnn786q1iiqpp1bqmb/report1.pdf', '', '', 'report1.pdf', 'pdf', 900),
	('k1crbhccoc1bbrsp4yoskwsugn', 'mutwoxohf9fce51znhazn145os', 'ms4b7gigjz69fiw6egoapsobct', 1746090000010, 0, '20250412/teams/noteam/channels/ucedpz79jzic7dwyr4wntqh1cp/users/mutwoxohf9fce51znhazn145os/k1crbhccoc1bbrsp4yoskwsugn/report2.pdf', '', '', 'report2.pdf', 'pdf', 900),
	('5ak5eey8pabyf7nprwi79pyxps', 'xaeczrpirfha349bg77546mrh3', 'aggech7hrd6k3x66j89arxqy3q', 1746090000011, 0, '20250413/teams/noteam/channels/9eyqc3n1ia78fqryg9fp7dci6d/users/xaeczrpirfha349bg77546mrh3/5ak5eey8pabyf7nprwi79pyxps/report3.pdf', '', '', 'report3.pdf', 'pdf', 900),
	('nxgcyn7d3xqn4onj7b6ggmjkwg', '6qjrzpkzxmj7mnwaz584joagzs', 'ayrbfrd173ypbm7p8p58fsgfxg', 1746090000012, 0, '20250414/teams/noteam/channels/4e4djwicymtofwaou34duuxa5o/users/6qjrzpkzxmj7mnwaz584joagzs/nxgcyn7d3xqn4onj7b6ggmjkwg/report4.pdf', '', '', 'report4.pdf', 'pdf', 900),
	('fztuu1j9icyfrn8pa74pfbdbe5', 'uhft31h8h6mjyez9xziaobcyod', 'dm1hoeousbwagkhk6wtxy4biqs', 1746090000013, 0, '20250415/teams/noteam/channels/ucedpz79jzic7dwyr4wntqh1cp/users/uhft31h8h6mjyez9xziaobcyod/fztuu1j9icyfrn8pa74pfbdbe5/report5.pdf', '', '', 'report5.pdf', 'pdf', 900),
	('iyxifkgnw5izr87kpdx4fpp1yo', 'mutwoxohf9fce51znhazn145os', '58mhk13xiobfpojrr3urrryrzr', 1746090000014, 0, '20240131/teams/noteam/channels/ucedpz79jzic7dwyr4wntqh1cp/users/mutwoxohf9fce51znhazn145os/iyxifkgnw5izr87kpdx4fpp1yo/Überblick (1).pdf', '', '', 'Überblick (1).pdf', 'pdf', 900),
	('j89thmgou34mhg7iwpbaqgpsit', 'uhft31h8h6mjyez9xziaobcyod', 'ycrfkuomnj6gdaofqdr1yteszm', 1746090000015, 1746090000005, '20250512/teams/noteam/channels/4e4djwicymtofwaou34duuxa5o/users/uhft31h8h6mjyez9xziaobcyod/j89thmgou34mhg7iwpbaqgpsit/regret.png', '20250512/teams/noteam/channels/4e4djwicymtofwaou34duuxa5o/users/uhft31h8h6mjyez9xziaobcyod/j89thmgou34mhg7iwpbaqgpsit/regret_thumb.jpeg', '20250512/teams/noteam/channels/4e4djwicymtofwaou34duuxa5o/users/uhft31h8h6mjyez9xziaobcyod/j89thmgou34mhg7iwpbaqgpsit/regret_preview.jpeg', 'regret.png', 'png', 900),
	('ezozzk8xk1abqcqazx6oydgazx', 'uhft31h8h6mjyez9xziaobcyod', '1b6h98879f3896mq5hd8crtzh6', 1746090000016, 1746090000006, '20250513/teams/noteam/channels/4e4djwicymtofwaou34duuxa5o/users/uhft31h8h6mjyez9xziaobcyod/ezozzk8xk1abqcqazx6oydgazx/secret.pdf', '', '', 'secret.pdf', 'pdf', 900),
	('xidrq6pa8d5dxkwpgf6o77erhw', '6qjrzpkzxmj7mnwaz584joagzs', '7fhpn1hecuwcr3bkyz6qr6z9pp', 1746090000017, 0, 'bookmark/teams/gptzr866omyb6nq9ezjawnzmqb/channels/9eyqc3n1ia78fqryg9fp7dci6d/xidrq6pa8d5dxkwpgf6o77erhw/manual.pdf', '', '', 'manual.pdf', 'pdf', 900);
INSERT INTO public.uploadsessions (id, type, createat, userid, channelid, filename, path, filesize, fileoffset) VALUES
	('c6cu7tqwn4mi4bzkxyjo76aeox', 'attachment', 1746090000000, 'xaeczrpirfha349bg77546mrh3', '9eyqc3n1ia78fqryg9fp7dci6d', 'film.mov', '20250601/teams/noteam/channels/9eyqc3n1ia78fqryg9fp7dci6d/users/xaeczrpirfha349bg77546mrh3/c6cu7tqwn4mi4bzkxyjo76aeox/film.mov', 90000000, 5242880),
	('8t4jeewdkq5kfh4oqjt4gd5gb1', 'attachment', 1746090000000, 'xaeczrpirfha349bg77546mrh3', '9eyqc3n1ia78fqryg9fp7dci6d', 'never begun.mov', '20250601/teams/noteam/channels/9eyqc3n1ia78fqryg9fp7dci6d/users/xaeczrpirfha349bg77546mrh3/8t4jeewdkq5kfh4oqjt4gd5gb1/never begun.mov', 90000000, 0),
	('r1me4rau8hx9zc5roamox4zord', 'import', 1746090000000, '6qjrzpkzxmj7mnwaz584joagzs', '', 'all.zip', 'import/r1me4rau8hx9zc5roamox4zord_all.zip', 900, 900);
INSERT INTO public.posts (id, createat, deleteat, message, fileids) VALUES
	('cfd4qoh5jdenkh1qwjuowpjq3n', 1746090000000, 0, 'Look', '["73hppdm58der9myk9q1pkjpg7g"]'),
	('9tufce6tqungyscjudmish6xiz', 1746090000001, 0, 'Look', '["waj1qfc7jm5i38ns8pr19sb9fc"]'),
	('6ujoggx8j9t8w7xknozc13pexx', 1746090000002, 0, 'Look', '["m8ur7g8k37nnng4e4srzkzkfiy"]'),
	('npmuif7myw44nfxjkjsepcqiry', 1746090000003, 0, 'Look', '["gygd9pqfkjob53818fpqxdxrig"]'),
	('oqxc7x9d33ia3fqi5uyu9b8644', 1746090000004, 0, 'Look', '["6n9irrcdz4fsk99eoud7k5au8r"]'),
	('jzkqs3u9wck3yymgx7osgaeo4r', 1746090000005, 0, 'Look', '["u7jipfs37n1iftmh4x8pnamati"]'),
	('cn3mtx1b44fa9ztwk9dsecdkuk', 1746090000006, 0, 'Look', '["iht1zuad99zbd8ahuj7nw6eytj"]'),
	('wnjt64rt3z318ohynuszoxrg48', 1746090000007, 0, 'Look', '["uduazmtu6cwh3goz3wa6t8ph4k"]'),
	('ptejqx81na1eatrtpqugzfzbr8', 1746090000008, 0, 'Look', '["ukm833i339ismj41epir4ryx53"]'),
	('t5zrtf83a4qdzior6e577cic83', 1746090000009, 0, 'Look', '["wpy7ehtdhnn786q1iiqpp1bqmb"]'),
	('ms4b7gigjz69fiw6egoapsobct', 1746090000010, 0, 'Look', '["k1crbhccoc1bbrsp4yoskwsugn"]'),
	('aggech7hrd6k3x66j89arxqy3q', 1746090000011, 0, 'Look', '["5ak5eey8pabyf7nprwi79pyxps"]'),
	('ayrbfrd173ypbm7p8p58fsgfxg', 1746090000012, 0, 'Look', '["nxgcyn7d3xqn4onj7b6ggmjkwg"]'),
	('dm1hoeousbwagkhk6wtxy4biqs', 1746090000013, 0, 'Look', '["fztuu1j9icyfrn8pa74pfbdbe5"]'),
	('58mhk13xiobfpojrr3urrryrzr', 1746090000014, 0, 'Look', '["iyxifkgnw5izr87kpdx4fpp1yo"]'),
	('ycrfkuomnj6gdaofqdr1yteszm', 1746090000015, 1746090000005, 'Look', '["j89thmgou34mhg7iwpbaqgpsit"]'),
	('1b6h98879f3896mq5hd8crtzh6', 1746090000016, 1746090000006, 'Look', '["ezozzk8xk1abqcqazx6oydgazx"]'),
	('7fhpn1hecuwcr3bkyz6qr6z9pp', 1746090000017, 0, 'Look', '["xidrq6pa8d5dxkwpgf6o77erhw"]');
