// Frames as they come from the server. A connection that is lost is tried again until there is one.

const RETRY = 2000; // milliseconds

// follow calls on.facts, on.past and on.frame with what the server sends, and on.state with "connected" or "lost".
export function follow(address, on) {
  const source = new EventSource(address);
  source.addEventListener("open", () => on.state("connected"));
  for (const kind of ["facts", "past", "frame"]) {
    source.addEventListener(kind, (event) => on[kind](JSON.parse(event.data)));
  }
  source.addEventListener("error", () => {
    on.state("lost");
    // The browser itself tries again unless the server has refused.
    if (source.readyState === EventSource.CLOSED) {
      setTimeout(() => follow(address, on), RETRY);
    }
  });
}
