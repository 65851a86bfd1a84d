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
	('p73hppdm58der9myk9q1pkjpg7', 's6qjrzpkzxmj7mnwaz584joagz', 'gcfd4qoh5jdenkh1qwjuowpjq3', 1746090000000, 0, '20250510/teams/noteam/channels/39eyqc3n1ia78fqryg9fp7dci6/users/s6qjrzpkzxmj7mnwaz584joagz/p73hppdm58der9myk9q1pkjpg7/photo 0.png', '20250510/teams/noteam/channels/39eyqc3n1ia78fqryg9fp7dci6/users/s6qjrzpkzxmj7mnwaz584joagz/p73hppdm58der9myk9q1pkjpg7/photo 0_thumb.jpeg', '20250510/teams/noteam/channels/39eyqc3n1ia78fqryg9fp7dci6/users/s6qjrzpkzxmj7mnwaz584joagz/p73hppdm58der9myk9q1pkjpg7/photo 0_preview.jpeg', 'photo 0.png', 'png', 900),
	('nwaj1qfc7jm5i38ns8pr19sb9f', 'suhft31h8h6mjyez9xziaobcyo', 'c9tufce6tqungyscjudmish6xi', 1746090000001, 0, '20250511/teams/noteam/channels/d4e4djwicymtofwaou34duuxa5/users/suhft31h8h6mjyez9xziaobcyo/nwaj1qfc7jm5i38ns8pr19sb9f/photo 1.png', '20250511/teams/noteam/channels/d4e4djwicymtofwaou34duuxa5/users/suhft31h8h6mjyez9xziaobcyo/nwaj1qfc7jm5i38ns8pr19sb9f/photo 1_thumb.jpeg', '20250511/teams/noteam/channels/d4e4djwicymtofwaou34duuxa5/users/suhft31h8h6mjyez9xziaobcyo/nwaj1qfc7jm5i38ns8pr19sb9f/photo 1_preview.jpeg', 'photo 1.png', 'png', 900),
	('zm8ur7g8k37nnng4e4srzkzkfi', 'dmutwoxohf9fce51znhazn145o', 'y6ujoggx8j9t8w7xknozc13pex', 1746090000002, 0, '20250512/teams/noteam/channels/oucedpz79jzic7dwyr4wntqh1c/users/dmutwoxohf9fce51znhazn145o/zm8ur7g8k37nnng4e4srzkzkfi/photo 2.png', '20250512/teams/noteam/channels/oucedpz79jzic7dwyr4wntqh1c/users/dmutwoxohf9fce51znhazn145o/zm8ur7g8k37nnng4e4srzkzkfi/photo 2_thumb.jpeg', '20250512/teams/noteam/channels/oucedpz79jzic7dwyr4wntqh1c/users/dmutwoxohf9fce51znhazn145o/zm8ur7g8k37nnng4e4srzkzkfi/photo 2_preview.jpeg', 'photo 2.png', 'png', 900),
	('xgygd9pqfkjob53818fpqxdxri', 'sxaeczrpirfha349bg77546mrh', 'gnpmuif7myw44nfxjkjsepcqir', 1746090000003, 0, '20250513/teams/noteam/channels/39eyqc3n1ia78fqryg9fp7dci6/users/sxaeczrpirfha349bg77546mrh/xgygd9pqfkjob53818fpqxdxri/photo 3.png', '20250513/teams/noteam/channels/39eyqc3n1ia78fqryg9fp7dci6/users/sxaeczrpirfha349bg77546mrh/xgygd9pqfkjob53818fpqxdxri/photo 3_thumb.jpeg', '20250513/teams/noteam/channels/39eyqc3n1ia78fqryg9fp7dci6/users/sxaeczrpirfha349bg77546mrh/xgygd9pqfkjob53818fpqxdxri/photo 3_preview.jpeg', 'photo 3.png', 'png', 900),
	('y6n9irrcdz4fsk99eoud7k5au8', 's6qjrzpkzxmj7mnwaz584joagz', 'roqxc7x9d33ia3fqi5uyu9b864', 1746090000004, 0, '20250514/teams/noteam/channels/d4e4djwicymtofwaou34duuxa5/users/s6qjrzpkzxmj7mnwaz584joagz/y6n9irrcdz4fsk99eoud7k5au8/photo 4.png', '20250514/teams/noteam/channels/d4e4djwicymtofwaou34duuxa5/users/s6qjrzpkzxmj7mnwaz584joagz/y6n9irrcdz4fsk99eoud7k5au8/photo 4_thumb.jpeg', '20250514/teams/noteam/channels/d4e4djwicymtofwaou34duuxa5/users/s6qjrzpkzxmj7mnwaz584joagz/y6n9irrcdz4fsk99eoud7k5au8/photo 4_preview.jpeg', 'photo 4.png', 'png', 900),
	('4u7jipfs37n1iftmh4x8pnamat', 'suhft31h8h6mjyez9xziaobcyo', 'ijzkqs3u9wck3yymgx7osgaeo4', 1746090000005, 0, '20250515/teams/noteam/channels/oucedpz79jzic7dwyr4wntqh1c/users/suhft31h8h6mjyez9xziaobcyo/4u7jipfs37n1iftmh4x8pnamat/photo 5.png', '20250515/teams/noteam/channels/oucedpz79jzic7dwyr4wntqh1c/users/suhft31h8h6mjyez9xziaobcyo/4u7jipfs37n1iftmh4x8pnamat/photo 5_thumb.jpeg', '20250515/teams/noteam/channels/oucedpz79jzic7dwyr4wntqh1c/users/suhft31h8h6mjyez9xziaobcyo/4u7jipfs37n1iftmh4x8pnamat/photo 5_preview.jpeg', 'photo 5.png', 'png', 900),
	('riht1zuad99zbd8ahuj7nw6eyt', 'dmutwoxohf9fce51znhazn145o', 'jcn3mtx1b44fa9ztwk9dsecdku', 1746090000006, 0, '20250516/teams/noteam/channels/39eyqc3n1ia78fqryg9fp7dci6/users/dmutwoxohf9fce51znhazn145o/riht1zuad99zbd8ahuj7nw6eyt/photo 6.png', '20250516/teams/noteam/channels/39eyqc3n1ia78fqryg9fp7dci6/users/dmutwoxohf9fce51znhazn145o/riht1zuad99zbd8ahuj7nw6eyt/photo 6_thumb.jpeg', '20250516/teams/noteam/channels/39eyqc3n1ia78fqryg9fp7dci6/users/dmutwoxohf9fce51znhazn145o/riht1zuad99zbd8ahuj7nw6eyt/photo 6_preview.jpeg', 'photo 6.png', 'png', 900),
	('kuduazmtu6cwh3goz3wa6t8ph4', 'sxaeczrpirfha349bg77546mrh', 'kwnjt64rt3z318ohynuszoxrg4', 1746090000007, 0, '20250517/teams/noteam/channels/d4e4djwicymtofwaou34duuxa5/users/sxaeczrpirfha349bg77546mrh/kuduazmtu6cwh3goz3wa6t8ph4/photo 7.png', '20250517/teams/noteam/channels/d4e4djwicymtofwaou34duuxa5/users/sxaeczrpirfha349bg77546mrh/kuduazmtu6cwh3goz3wa6t8ph4/photo 7_thumb.jpeg', '20250517/teams/noteam/channels/d4e4djwicymtofwaou34duuxa5/users/sxaeczrpirfha349bg77546mrh/kuduazmtu6cwh3goz3wa6t8ph4/photo 7_preview.jpeg', 'photo 7.png', 'png', 900),
	('8ukm833i339ismj41epir4ryx5', 's6qjrzpkzxmj7mnwaz584joagz', '3ptejqx81na1eatrtpqugzfzbr', 1746090000008, 0, '20250410/teams/noteam/channels/39eyqc3n1ia78fqryg9fp7dci6/users/s6qjrzpkzxmj7mnwaz584joagz/8ukm833i339ismj41epir4ryx5/report0.pdf', '', '', 'report0.pdf', 'pdf', 900),
	('8wpy7ehtdhnn786q1iiqpp1bqm', 'suhft31h8h6mjyez9xziaobcyo', 'bt5zrtf83a4qdzior6e577cic8', 1746090000009, 0, '20250411/teams/noteam/channels/d4e4djwicymtofwaou34duuxa5/users/suhft31h8h6mjyez9xziaobcyo/8wpy7ehtdhnn786q1iiqpp1bqm/report1.pdf', '', '', 'report1.pdf', 'pdf', 900),
	('3k1crbhccoc1bbrsp4yoskwsug', 'dmutwoxohf9fce51znhazn145o', 'nms4b7gigjz69fiw6egoapsobc', 1746090000010, 0, '20250412/teams/noteam/channels/oucedpz79jzic7dwyr4wntqh1c/users/dmutwoxohf9fce51znhazn145o/3k1crbhccoc1bbrsp4yoskwsug/report2.pdf', '', '', 'report2.pdf', 'pdf', 900),
	('t5ak5eey8pabyf7nprwi79pyxp', 'sxaeczrpirfha349bg77546mrh', 'saggech7hrd6k3x66j89arxqy3', 1746090000011, 0, '20250413/teams/noteam/channels/39eyqc3n1ia78fqryg9fp7dci6/users/sxaeczrpirfha349bg77546mrh/t5ak5eey8pabyf7nprwi79pyxp/report3.pdf', '', '', 'report3.pdf', 'pdf', 900),
	('qnxgcyn7d3xqn4onj7b6ggmjkw', 's6qjrzpkzxmj7mnwaz584joagz', 'gayrbfrd173ypbm7p8p58fsgfx', 1746090000012, 0, '20250414/teams/noteam/channels/d4e4djwicymtofwaou34duuxa5/users/s6qjrzpkzxmj7mnwaz584joagz/qnxgcyn7d3xqn4onj7b6ggmjkw/report4.pdf', '', '', 'report4.pdf', 'pdf', 900),
	('gfztuu1j9icyfrn8pa74pfbdbe', 'suhft31h8h6mjyez9xziaobcyo', '5dm1hoeousbwagkhk6wtxy4biq', 1746090000013, 0, '20250415/teams/noteam/channels/oucedpz79jzic7dwyr4wntqh1c/users/suhft31h8h6mjyez9xziaobcyo/gfztuu1j9icyfrn8pa74pfbdbe/report5.pdf', '', '', 'report5.pdf', 'pdf', 900),
	('siyxifkgnw5izr87kpdx4fpp1y', 'dmutwoxohf9fce51znhazn145o', 'o58mhk13xiobfpojrr3urrryrz', 1746090000014, 0, '20240131/teams/noteam/channels/oucedpz79jzic7dwyr4wntqh1c/users/dmutwoxohf9fce51znhazn145o/siyxifkgnw5izr87kpdx4fpp1y/Überblick (1).pdf', '', '', 'Überblick (1).pdf', 'pdf', 900),
	('rj89thmgou34mhg7iwpbaqgpsi', 'suhft31h8h6mjyez9xziaobcyo', 'tycrfkuomnj6gdaofqdr1ytesz', 1746090000015, 1746090000005, '20250512/teams/noteam/channels/d4e4djwicymtofwaou34duuxa5/users/suhft31h8h6mjyez9xziaobcyo/rj89thmgou34mhg7iwpbaqgpsi/regret.png', '20250512/teams/noteam/channels/d4e4djwicymtofwaou34duuxa5/users/suhft31h8h6mjyez9xziaobcyo/rj89thmgou34mhg7iwpbaqgpsi/regret_thumb.jpeg', '20250512/teams/noteam/channels/d4e4djwicymtofwaou34duuxa5/users/suhft31h8h6mjyez9xziaobcyo/rj89thmgou34mhg7iwpbaqgpsi/regret_preview.jpeg', 'regret.png', 'png', 900),
	('mezozzk8xk1abqcqazx6oydgaz', 'suhft31h8h6mjyez9xziaobcyo', 'x1b6h98879f3896mq5hd8crtzh', 1746090000016, 1746090000006, '20250513/teams/noteam/channels/d4e4djwicymtofwaou34duuxa5/users/suhft31h8h6mjyez9xziaobcyo/mezozzk8xk1abqcqazx6oydgaz/secret.pdf', '', '', 'secret.pdf', 'pdf', 900),
	('6xidrq6pa8d5dxkwpgf6o77erh', 's6qjrzpkzxmj7mnwaz584joagz', 'b7fhpn1hecuwcr3bkyz6qr6z9p', 1746090000017, 0, 'bookmark/teams/wgptzr866omyb6nq9ezjawnzmq/channels/39eyqc3n1ia78fqryg9fp7dci6/6xidrq6pa8d5dxkwpgf6o77erh/manual.pdf', '', '', 'manual.pdf', 'pdf', 900);
INSERT INTO public.uploadsessions (id, type, createat, userid, channelid, filename, path, filesize, fileoffset) VALUES
	('pc6cu7tqwn4mi4bzkxyjo76aeo', 'attachment', 1746090000000, 'sxaeczrpirfha349bg77546mrh', '39eyqc3n1ia78fqryg9fp7dci6', 'film.mov', '20250601/teams/noteam/channels/39eyqc3n1ia78fqryg9fp7dci6/users/sxaeczrpirfha349bg77546mrh/pc6cu7tqwn4mi4bzkxyjo76aeo/film.mov', 90000000, 5242880),
	('x8t4jeewdkq5kfh4oqjt4gd5gb', 'attachment', 1746090000000, 'sxaeczrpirfha349bg77546mrh', '39eyqc3n1ia78fqryg9fp7dci6', 'never begun.mov', '20250601/teams/noteam/channels/39eyqc3n1ia78fqryg9fp7dci6/users/sxaeczrpirfha349bg77546mrh/x8t4jeewdkq5kfh4oqjt4gd5gb/never begun.mov', 90000000, 0),
	('1r1me4rau8hx9zc5roamox4zor', 'import', 1746090000000, 's6qjrzpkzxmj7mnwaz584joagz', '', 'all.zip', 'import/1r1me4rau8hx9zc5roamox4zor_all.zip', 900, 900);
INSERT INTO public.posts (id, createat, deleteat, message, fileids) VALUES
	('gcfd4qoh5jdenkh1qwjuowpjq3', 1746090000000, 0, 'Look', '["p73hppdm58der9myk9q1pkjpg7"]'),
	('c9tufce6tqungyscjudmish6xi', 1746090000001, 0, 'Look', '["nwaj1qfc7jm5i38ns8pr19sb9f"]'),
	('y6ujoggx8j9t8w7xknozc13pex', 1746090000002, 0, 'Look', '["zm8ur7g8k37nnng4e4srzkzkfi"]'),
	('gnpmuif7myw44nfxjkjsepcqir', 1746090000003, 0, 'Look', '["xgygd9pqfkjob53818fpqxdxri"]'),
	('roqxc7x9d33ia3fqi5uyu9b864', 1746090000004, 0, 'Look', '["y6n9irrcdz4fsk99eoud7k5au8"]'),
	('ijzkqs3u9wck3yymgx7osgaeo4', 1746090000005, 0, 'Look', '["4u7jipfs37n1iftmh4x8pnamat"]'),
	('jcn3mtx1b44fa9ztwk9dsecdku', 1746090000006, 0, 'Look', '["riht1zuad99zbd8ahuj7nw6eyt"]'),
	('kwnjt64rt3z318ohynuszoxrg4', 1746090000007, 0, 'Look', '["kuduazmtu6cwh3goz3wa6t8ph4"]'),
	('3ptejqx81na1eatrtpqugzfzbr', 1746090000008, 0, 'Look', '["8ukm833i339ismj41epir4ryx5"]'),
	('bt5zrtf83a4qdzior6e577cic8', 1746090000009, 0, 'Look', '["8wpy7ehtdhnn786q1iiqpp1bqm"]'),
	('nms4b7gigjz69fiw6egoapsobc', 1746090000010, 0, 'Look', '["3k1crbhccoc1bbrsp4yoskwsug"]'),
	('saggech7hrd6k3x66j89arxqy3', 1746090000011, 0, 'Look', '["t5ak5eey8pabyf7nprwi79pyxp"]'),
	('gayrbfrd173ypbm7p8p58fsgfx', 1746090000012, 0, 'Look', '["qnxgcyn7d3xqn4onj7b6ggmjkw"]'),
	('5dm1hoeousbwagkhk6wtxy4biq', 1746090000013, 0, 'Look', '["gfztuu1j9icyfrn8pa74pfbdbe"]'),
	('o58mhk13xiobfpojrr3urrryrz', 1746090000014, 0, 'Look', '["siyxifkgnw5izr87kpdx4fpp1y"]'),
	('tycrfkuomnj6gdaofqdr1ytesz', 1746090000015, 1746090000005, 'Look', '["rj89thmgou34mhg7iwpbaqgpsi"]'),
	('x1b6h98879f3896mq5hd8crtzh', 1746090000016, 1746090000006, 'Look', '["mezozzk8xk1abqcqazx6oydgaz"]'),
	('b7fhpn1hecuwcr3bkyz6qr6z9p', 1746090000017, 0, 'Look', '["6xidrq6pa8d5dxkwpgf6o77erh"]');
