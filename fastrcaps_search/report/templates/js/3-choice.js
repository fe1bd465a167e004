"use strict";
// The rule of `select`, fastrcaps_search/front/choice.py, operation for operation.
report.choice = (() => {
  const front = report.front("seconds").map((number) => {
    const { accuracy, training_seconds: seconds, parameters } = report.byNumber.get(number).values;
    return { number, accuracy, seconds, parameters };
  });
  const column = (key) => front.map((one) => one[key]);
  const span = (key) => Math.max(...column(key)) - Math.min(...column(key));
  const best = {
    accuracy: Math.max(...column("accuracy")),
    seconds: Math.min(...column("seconds")),
    parameters: Math.min(...column("parameters")),
  };
  const spans = {
    accuracy: span("accuracy"), seconds: span("seconds"), parameters: span("parameters"),
  };

  const byAccuracy = (one) => [-one.accuracy, one.seconds, one.parameters, one.number];
  const bySeconds = (one) => [one.seconds, -one.accuracy, one.parameters, one.number];
  const byParameters = (one) => [one.parameters, -one.accuracy, one.seconds, one.number];

  const distance = (one, [a, t, p]) => {
    const x = spans.accuracy ? (best.accuracy - one.accuracy) / spans.accuracy : 0;
    const y = spans.seconds ? (one.seconds - best.seconds) / spans.seconds : 0;
    const z = spans.parameters ? (one.parameters - best.parameters) / spans.parameters : 0;
    return a * x + t * y + p * z;
  };

  const orders = {
    accuracy: () => byAccuracy,
    time: () => bySeconds,
    size: () => byParameters,
    knee: () => (one) => [distance(one, [1, 1, 1]), ...byAccuracy(one)],
    weights: (weights) => (one) => [distance(one, weights), ...byAccuracy(one)],
  };

  const smaller = (order) => (first, second) => {
    const [a, b] = [order(first), order(second)];
    const place = a.findIndex((value, index) => value !== b[index]);
    return place < 0 ? 0 : a[place] - b[place];
  };

  const fits = (one, { accuracy, seconds, parameters }) =>
    (accuracy === null || one.accuracy >= accuracy) &&
    (seconds === null || one.seconds <= seconds) &&
    (parameters === null || one.parameters <= parameters);

  const nearMiss = (one, bounds) => {
    const accuracy = bounds.accuracy === null ? 0 : Math.max(0, bounds.accuracy - one.accuracy);
    const seconds = bounds.seconds === null ? 0 : Math.max(0, one.seconds - bounds.seconds);
    const parameters =
      bounds.parameters === null ? 0 : Math.max(0, one.parameters - bounds.parameters);
    const x = accuracy / (spans.accuracy || Math.abs(bounds.accuracy || 0) || 1);
    const y = seconds / (spans.seconds || Math.abs(bounds.seconds || 0) || 1);
    const z = parameters / (spans.parameters || Math.abs(bounds.parameters || 0) || 1);
    return { number: one.number, one, shortfall: x + y + z, accuracy, seconds, parameters };
  };

  const reason = (bounds, { rule, weights = [] }, fitting) => {
    const bounded = Object.values(bounds).some((value) => value !== null);
    if (fitting === 1) return `the only trial on the front${bounded ? " that fits" : ""}`;
    const closest = "closest to the best value of every objective at once";
    const [a, t, p] = weights;
    const what = {
      accuracy: "highest accuracy",
      time: "shortest training time",
      size: "fewest parameters",
      knee: `${closest} (knee)`,
      weights: `${closest} (weights: accuracy ${a}, time ${t}, size ${p})`,
    }[rule];
    return `${what} of the ${fitting} trials on the front${bounded ? " that fit" : ""}`;
  };

  // Bounds are numbers or null; the preference is { rule, weights }.
  const choose = (bounds, prefer) => {
    const fitting = front.filter((one) => fits(one, bounds));
    if (fitting.length) {
      fitting.sort(smaller(orders[prefer.rule](prefer.weights)));
      const why = reason(bounds, prefer, fitting.length);
      return { number: fitting[0].number, why, of: front.length };
    }
    const nearest = front.map((one) => nearMiss(one, bounds));
    nearest.sort(smaller((miss) => [miss.shortfall, ...byAccuracy(miss.one)]));
    return { number: null, nearest: nearest.slice(0, 3), of: front.length };
  };

  return { choose };
})();
