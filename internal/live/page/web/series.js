// From frames to lines over time. Nothing here touches the page.

// KEPT is how long the past is shown, in milliseconds.
const KEPT = 15 * 60 * 1000;

// newHistory returns a past without frames.
export function newHistory() {
  return { points: [] };
}

// add adds a frame to the past, and forgets what is too old. A frame that is older than the last is of another time:
// what was before is dropped.
export function add(history, frame) {
  const points = history.points;
  const last = points[points.length - 1];
  if (last && frame.at_ms <= last.at) {
    points.length = 0;
  }
  points.push(pointOf(frame));
  while (points.length && points[0].at < frame.at_ms - KEPT) {
    points.shift();
  }
}

// pointOf keeps of a frame what is shown over time.
function pointOf(frame) {
  const gateways = new Map();
  for (const gateway of frame.gateways ?? []) {
    const clusters = new Map();
    for (const cluster of gateway.clusters ?? []) {
      clusters.set(cluster.name, {
        policy: cluster.policy,
        requests: cluster.requests_per_s,
        refused: cluster.refused_per_s,
        expected: cluster.expected_cached ?? null,
        reported: cluster.reported_cached ?? null,
        p50: cluster.ttft_ms?.p50 ?? null,
        p90: cluster.ttft_ms?.p90 ?? null,
      });
    }
    gateways.set(gateway.name, clusters);
  }
  return { at: frame.at_ms, note: frame.note ?? "", gateways };
}

// busiest returns the cluster of a gateway that has had the most requests.
export function busiest(history, gateway) {
  const sums = new Map();
  for (const point of history.points) {
    for (const [name, cluster] of point.gateways.get(gateway) ?? []) {
      sums.set(name, (sums.get(name) ?? 0) + cluster.requests);
    }
  }
  let best = "";
  for (const [name, sum] of sums) {
    if (best === "" || sum > sums.get(best)) {
      best = name;
    }
  }
  return best;
}

// shown returns the cluster of each gateway that plots show: the one chosen, or its busiest.
export function shown(history, gateways, chosen) {
  return new Map(gateways.map((gateway) => [gateway, chosen.get(gateway) ?? busiest(history, gateway)]));
}

// lines returns what plots show: the times in seconds, and for each gateway the values of its cluster.
export function lines(history, clusters) {
  const times = history.points.map((point) => point.at / 1000);
  const all = [...clusters].map(([gateway, cluster]) => {
    const values = {};
    for (const key of ["p50", "p90", "requests", "refused", "expected", "reported"]) {
      values[key] = history.points.map((point) => point.gateways.get(gateway)?.get(cluster)?.[key] ?? null);
    }
    const policy = history.points.at(-1)?.gateways.get(gateway)?.get(cluster)?.policy ?? "";
    return { gateway, cluster, policy, values };
  });
  return { times, all };
}

// switches returns when policies of the clusters shown have changed, and when notes have, oldest first: their times in
// seconds, what there is from then on, and the number of the mark: one for all that changes at a time.
export function switches(history, clusters) {
  const found = [];
  let note = history.points[0]?.note ?? "";
  let number = 0;
  const policies = new Map();
  for (const point of history.points) {
    const at = point.at / 1000;
    const add = (change) => {
      number += found.at(-1)?.at === at ? 0 : 1;
      found.push({ at, number, ...change });
    };
    if (point.note !== note) {
      note = point.note;
      if (note) {
        add({ note });
      }
    }
    for (const [gateway, cluster] of clusters) {
      const policy = point.gateways.get(gateway)?.get(cluster)?.policy;
      if (policy && policies.has(gateway) && policies.get(gateway) !== policy) {
        add({ gateway, policy });
      }
      if (policy) {
        policies.set(gateway, policy);
      }
    }
  }
  return found;
}
