"""Settings for applications that many teams run, one YAML file each, with how they were proven.

A file `NAME.yaml` in this folder holds these keys; what is marked * may be left out.

- `name`: as the file is called. `title`: for people. `version`: a whole number, counted up with
  every change of what is written into settings.
- `advice`: `live` (its settings may be made live), `list only` (`preset apply` writes settings
  whose runs can never be live: `allow_live: false`, and the reason above it), `refused` (nothing is
  written). `reason`: why, in a sentence or two.
- `proven`: a list of `{on, how, fixture*}`. `on`: the version of application or schema. `how`:
  `run` (the application itself was run) or `published schema`. `fixture`: a folder of
  tests/applications.
- `probes`*: a list of `{name, asks, sql, must_be*}`. One SELECT each, of one value; no row and
  NULL count as the empty text. It must answer whatever application the database belongs to: ask
  `to_regclass` or information_schema, and name no table of the application in FROM, or only
  in a probe after one with `must_be` (the first that is not what it must be ends the probing).
  `must_be`: the answers that this application gives; others mean that the preset does not fit.
  An answer without `must_be` tells a variant, for `when`.
- `watches`*: tables, as `schema.table` with * for anything. Their columns (names and types) are
  one more probe for each table, and their names another: an upgrade that moves a column, or adds a
  table or a column that may name keys, makes live runs refuse until somebody has looked. Watch
  all that may name an object.
- `parameters`*: by name, `{description, suggest*, default*, example, many*, pattern*}`. `suggest`:
  one SELECT whose rows are the answer, the first row unless `many`; asked after the probes, and an
  error is no answer. `default`: used without an answer. `example`: a value with which the file is
  checked. `many: true`: a list. `pattern`: a regular expression of a value, whole; without it
  letters, digits, blanks and `_ . / : @ % + ~ -`. A prefix should be `([^/]+/)+`.
- `script`*: a script of this folder that makes a preset of one's own; then `bucket` and `jobs` are
  left out.
- `bucket`: plain settings of a bucket, without what says where it is: `owns` or
  `owns_whole_bucket`, `protect`, `shape`, `min_age`, `sources` (with `names: keys | owners`),
  `rewrites`, `named_elsewhere`.
- `jobs`*: plain settings of jobs, without `mode`: `upload_reservations` with `tables` or `source`,
  `deleted_files` with `tables`, `table_retention` with `rules`, `storage_orphans`. Without a
  `schedule` a job is `by_hand`.
- `cleans_itself`*: what the application removes, and when. `never_seen`*: what it stores and no
  row names, or what stays although it is dead. `traps`*: what a team falls into. Lists of texts.
- `not_caught`*: rules whose loss no guard stops, `{kind, name, why}`, with `kind` one of source,
  transform, rewrite, protection and `name` as `filejobs rehearse` names it.

In `bucket` and `jobs`, every mapping of a list may hold two more keys. They are not written:

- `about`: a comment that is written above it.
- `when`: `{NAME: value or list of values}`. It stands only where every named probe or parameter
  answered so. Probes that say yes and no should say `yes` and `no`.

`@NAME@` in a text is the value of the parameter; a list item that is nothing but `@NAME@` of a
parameter with `many` becomes all its items. In `match` and `shape` it is taken literally: no
character of it is a pattern. Names of sources, rewrites and tables are unique whatever `when` says.

The file is complete when `filejobs preset show NAME` prints it: that reads it as the jobs will,
with each parameter's example and as if every `when` held.
"""
