-- The projection of all session logs. It may be deleted at any moment: every value comes from the logs.
-- `user_version` is the schema number; a different number means rebuild, never migrate.

-- One row per session: the line of a list. Rows of deleted sessions stay, hidden.
CREATE TABLE sessions (
  session INTEGER PRIMARY KEY,             -- key used by the other tables
  id TEXT NOT NULL UNIQUE,                 -- UUID
  title TEXT NOT NULL,                     -- given, or the first words of the first user message
  titled INTEGER NOT NULL,                 -- 1: the title was given
  cwd TEXT NOT NULL,
  model TEXT NOT NULL,
  state TEXT NOT NULL,                     -- open, running (or interrupted: its lock tells), closed, archived, deleted
  created_us INTEGER NOT NULL,
  last_activity_us INTEGER NOT NULL,       -- time of the last event
  turns INTEGER NOT NULL,                  -- started
  open_turns INTEGER NOT NULL,             -- started and not ended
  steps INTEGER NOT NULL,                  -- completed or failed
  messages INTEGER NOT NULL,
  tool_calls INTEGER NOT NULL,             -- proposed
  tokens_input INTEGER NOT NULL,
  tokens_output INTEGER NOT NULL,
  tokens_cache_read INTEGER NOT NULL,
  tokens_cache_write INTEGER NOT NULL,
  tags TEXT NOT NULL,                      -- sorted, one per line; the table `tags` serves the filter
  parent TEXT NOT NULL,                    -- session id, or empty
  fork_ordinal INTEGER NOT NULL,           -- last inherited ordinal
  head_ordinal INTEGER NOT NULL,           -- last ordinal projected
  head_chain BLOB NOT NULL,                -- chain there; empty after damage
  bytes INTEGER NOT NULL,                  -- logical bytes of all segments, seals left out
  closed INTEGER NOT NULL,                 -- flags from which `state` is derived
  archived INTEGER NOT NULL,
  deleted INTEGER NOT NULL,
  damaged INTEGER NOT NULL                 -- 1: events are missing or unreadable
);

-- A session's tags, with a copy of its activity so that a list by tag needs no sort.
CREATE TABLE tags (
  tag TEXT NOT NULL,
  last_activity_us INTEGER NOT NULL,
  id TEXT NOT NULL,
  session INTEGER NOT NULL,
  PRIMARY KEY (tag, last_activity_us DESC, id DESC)
) WITHOUT ROWID;

-- Segments read so far. The last three columns of the newest one are the session's witness: bytes, ordinal and chain
-- that were on stable storage when the row was written. Recovery counts the log's loss of any of them as damage.
CREATE TABLE segments (
  session INTEGER NOT NULL,
  number INTEGER NOT NULL,                 -- segment_number of its header
  segment_id BLOB NOT NULL,
  first_ordinal INTEGER NOT NULL,
  name TEXT NOT NULL,                      -- file name without suffix
  durable_off INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  chain BLOB NOT NULL,
  PRIMARY KEY (session, number)
) WITHOUT ROWID;

-- Shard folders as last listed: a changed time means that sessions were added or removed.
CREATE TABLE shards (
  shard TEXT PRIMARY KEY,
  mtime_ns INTEGER NOT NULL                -- 0: list it again; -1: it was removed
) WITHOUT ROWID;

-- States of sessions, as folded up to an event: a shortcut for resuming, never needed. One counts only if the log has
-- the same chain at its ordinal, and if its schema number is the reader's.
CREATE TABLE snapshots (
  session INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,                -- of the last event in it
  schema INTEGER NOT NULL,                 -- of the state; another number than the reader's makes it useless
  chain BLOB NOT NULL,                     -- of the log at the ordinal
  body BLOB NOT NULL,                      -- canonical JSON, zstd
  PRIMARY KEY (session, ordinal)
);

-- The rest is created after a rebuild has filled the tables: sorting once is cheaper than inserting in any order.

-- Each list is newest first, in keyset pages: (last_activity_us, id) descending behind the filter's column.
CREATE INDEX sessions_recent ON sessions (last_activity_us DESC, id DESC) WHERE state <> 'deleted';
CREATE INDEX sessions_cwd ON sessions (cwd, last_activity_us DESC, id DESC) WHERE state <> 'deleted';
CREATE INDEX sessions_model ON sessions (model, last_activity_us DESC, id DESC) WHERE state <> 'deleted';
CREATE INDEX sessions_parent ON sessions (parent, last_activity_us DESC, id DESC)
  WHERE state <> 'deleted' AND parent <> '';
CREATE INDEX sessions_state ON sessions (state, last_activity_us DESC, id DESC);
-- Which sessions of a shard folder are known.
CREATE INDEX sessions_shard ON sessions (substr(id, 35));
-- Which tags a session has.
CREATE INDEX tags_session ON tags (session);
