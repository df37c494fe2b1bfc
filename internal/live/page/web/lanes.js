// From what frames say of an endpoint to what its lane shows. Nothing here touches the page.

// The most marks of a lane: with more requests, each mark stands for several of them.
const MOST_MARKS = 40;

// The most endpoints of a cluster that have marks: with more, lanes are bars.
export const MOST_LANES = 48;

// load returns what runs and waits at an endpoint: as its engine says, or what is in flight, where it says nothing.
export function load(endpoint) {
  if (endpoint.running === undefined || endpoint.running === null) {
    return { running: endpoint.requests, waiting: 0 };
  }
  return { running: Math.round(endpoint.running), waiting: Math.round(endpoint.waiting ?? 0) };
}

// scale returns what all lanes have in common, so that they can be compared: how many requests their length stands for,
// and how many a mark stands for.
export function scale(endpoints) {
  let most = 8;
  for (const endpoint of endpoints) {
    const { running, waiting } = load(endpoint);
    most = Math.max(most, running + waiting, endpoint.requests);
    for (const limit of [endpoint.cap, endpoint.push_limit]) {
      // A limit far above what is there would leave the lanes empty.
      if (limit && limit <= 4 * most) {
        most = Math.max(most, limit);
      }
    }
  }
  return { length: most, each: Math.ceil(most / MOST_MARKS) };
}

// steady keeps the length of lanes from changing all the time: it grows at once, and shrinks to half of itself only.
export function steady(before, next) {
  return before && next.length <= before.length && next.length * 2 > before.length ? before : next;
}

// newLane returns a lane without marks.
export function newLane() {
  return { marks: [], next: 1 };
}

// step moves the marks of a lane on to what is there now. `ended` is how many requests are known to have ended there
// since: as many marks leave even if as many have come. It returns the marks that have left.
export function step(lane, endpoint, each, ended) {
  const { running, waiting } = load(endpoint);
  const runs = Math.ceil(running / each);
  const all = runs + Math.ceil(waiting / each);
  const tooMany = Math.max(0, lane.marks.length - all);
  const over = Math.min(lane.marks.length, Math.max(tooMany, Math.floor(ended / each)));
  const left = lane.marks.splice(0, over);
  while (lane.marks.length < all) {
    lane.marks.push({ id: lane.next++, waits: false });
  }
  // The oldest run.
  lane.marks.forEach((mark, i) => {
    mark.waits = i >= runs;
  });
  return left;
}

// place returns where on its lane a mark is, in percent of the lane: requests come from the left, and the oldest is at
// the right end.
export function place(index, scaled) {
  return 100 - (100 * (index + 1) * scaled.each) / scaled.length;
}

// limit returns where on its lane a limit is, or null if it lies beyond.
export function limit(requests, scaled) {
  return requests > 0 && requests <= scaled.length ? 100 - (100 * requests) / scaled.length : null;
}

// endedBy counts the requests of a gateway's decisions that have ended, by cluster and endpoint.
export function endedBy(decisions) {
  const counts = new Map();
  for (const decision of decisions ?? []) {
    if (decision.ended && decision.endpoint) {
      const key = laneKey(decision.cluster, decision.endpoint);
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
  }
  return counts;
}

// laneKey names a lane of a gateway.
export function laneKey(cluster, endpoint) {
  return JSON.stringify([cluster, endpoint]);
}
