// From decisions to what is said of them. Nothing here touches the page.

// MOST is how many decisions are kept.
const MOST = 200;

// newChoices returns a list without decisions.
export function newChoices() {
  return { byKey: new Map() };
}

// learn adds the decisions of a frame, or what more is known of them.
export function learn(choices, frame) {
  for (const gateway of frame.gateways ?? []) {
    for (const decision of gateway.decisions ?? []) {
      const key = JSON.stringify([gateway.name, decision.id]);
      choices.byKey.set(key, { key, gateway: gateway.name, decision });
    }
  }
  const surplus = choices.byKey.size - MOST;
  if (surplus > 0) {
    for (const { key } of oldestFirst(choices).slice(0, surplus)) {
      choices.byKey.delete(key);
    }
  }
}

function oldestFirst(choices) {
  return [...choices.byKey.values()].sort((a, b) => a.decision.at_ms - b.decision.at_ms);
}

// latest returns the decisions, the newest first.
export function latest(choices) {
  return oldestFirst(choices).reverse();
}

// account says who has won a decision, and by how much: the candidates as they are, whether each is the one chosen, and
// `margin`, what the cheapest other candidate would have cost more. A margin below 0 says that the cheapest was not
// taken; without another candidate, or without the chosen one among them, it is null.
export function account(decision) {
  const rows = (decision.candidates ?? []).map((candidate) => ({
    ...candidate,
    chosen: candidate.addr === decision.endpoint,
  }));
  const winner = rows.find((row) => row.chosen);
  const others = rows.filter((row) => !row.chosen && !row.full);
  let margin = null;
  let rival = "";
  if (winner && others.length) {
    const second = others.reduce((a, b) => (b.cost < a.cost ? b : a));
    margin = second.cost - winner.cost;
    rival = second.addr;
  }
  return { rows, winner, margin, rival };
}
