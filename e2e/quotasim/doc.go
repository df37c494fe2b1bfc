// Package quotasim simulates model backends with quotas: each takes so many calls at once, and so many tokens and
// requests a minute. What is beyond that it refuses with 429, and says in the headers of every answer what is left, as
// OpenAI's and Anthropic's services do.
//
// A call is charged for its prompt and the most that its answer may have, and what the answer did not need is given
// back when it ends. A bucket holds what a minute brings. How many tokens the answer has and how long it takes is said
// by the call itself, in headers: see [Work].
package quotasim
