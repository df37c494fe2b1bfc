// Package page tests pages in a real browser: that of internal/live/page shows what its frames say, to everybody, and
// of Grafana's dashboards, which a page of the tests draws, each panel shows something.
package page
