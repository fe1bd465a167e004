"use strict";
// The command lines that belong to a trial, exact enough to be pasted.
report.commands = (() => {
  const { study } = report.data;
  // Quoted for a POSIX shell where a shell would read more into it.
  const quoted = (word) =>
    /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
  // A server's URL may hold a password, so it stays in its variable, which must be set.
  const place = study.onServer ? '"${FASTRCAPS_STORAGE:?}"' : quoted(study.storage);
  const storage = study.storage === "" && !study.onServer ? [] : ["--storage", place];

  const line = (...words) => ["fastrcaps-search", ...words].join(" ");

  const choose = (flags) =>
    line("select", "--study", quoted(study.name), ...storage, ...flags.map(quoted));

  // Bounds at the trial's own values: nothing on the front but its equals fits them.
  const select = (trial) => {
    const { accuracy, training_seconds: seconds, parameters } = trial.values;
    return choose([
      "--min-accuracy", String(accuracy), "--max-seconds", String(seconds),
      "--max-parameters", String(parameters),
    ]);
  };

  // A study's name has at most 63 characters.
  const named = (trial) => {
    const ending = `-trial-${trial.number}`;
    return study.name.slice(0, 63 - ending.length) + ending;
  };
  const toml = (value) => (typeof value === "string" ? JSON.stringify(value) : String(value));
  const file = (trial) => [
    `name = ${toml(named(trial))}`,
    study.file,
    "",
    "[[configuration]]",
    ...Object.entries(trial.row.params).map(([key, value]) => `${key} = ${toml(value)}`),
    "",
  ].join("\n");
  const repeat = (trial) =>
    line("run", "--study", quoted(`${named(trial)}.toml`), "--trials", 1, "--seed", study.seed);

  const exported = (trial) =>
    line("export", "--study", quoted(study.name), ...storage, "--trial", trial.number,
      "--out", quoted(named(trial)));

  return { choose, select, repeat, exported, file, fileName: (trial) => `${named(trial)}.toml` };
})();
