"use strict";
// The command lines that belong to a trial, exact enough to be pasted.
report.commands = (() => {
  const { study } = report.data;
  // Quoted for a POSIX shell where a shell would read more into it.
  const quoted = (word) =>
    /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
  const storage = study.storage === "" ? [] : ["--storage", study.storage.startsWith("$") ? `"${study.storage}"` : quoted(study.storage)];

  const line = (...words) => ["fastrcaps-search", ...words].join(" ");

  // Bounds at the trial's own values: nothing on the front but its equals fits them.
  const select = (trial) => {
    const { accuracy, training_seconds: seconds, parameters } = trial.values;
    return line(
      "select", "--study", quoted(study.name), ...storage, "--min-accuracy", accuracy,
      "--max-seconds", seconds, "--max-parameters", parameters,
    );
  };

  const named = (trial) => `${study.name}-trial-${trial.number}`.slice(-64);
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

  return { select, repeat, file, fileName: (trial) => `${named(trial)}.toml`, line, storage, quoted };
})();
