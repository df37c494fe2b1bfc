package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// socketPrefix begins an address that is the path of a Unix socket.
const socketPrefix = "unix:"

// newClient returns a client for an address of a [Source].
func newClient(addr string) http.Client {
	transport := &http.Transport{
		MaxIdleConnsPerHost: 4, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
	}
	if path, ok := strings.CutPrefix(addr, socketPrefix); ok {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
	}
	// No answer may lead to where nobody has asked.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return http.Client{Transport: transport, Timeout: timeout, CheckRedirect: stay}
}

// adminJSON reads a page of the administration, of at most so many bytes, into a value.
func (g *gateway) adminJSON(ctx context.Context, page string, most int64, into any) error {
	base := strings.TrimSuffix(g.Admin, "/")
	if strings.HasPrefix(base, socketPrefix) {
		base = "http://admin"
	}
	err := getJSON(ctx, &g.admin, base+page, "", most, into)
	if err == statusError(http.StatusForbidden) {
		return fmt.Errorf("%w: the gateway does not show this page; admin.allow_paths says which it does", err)
	}
	return err
}

// getJSON reads a JSON text of at most so many bytes into a value. Its errors have no part of the URL, which may have a
// password, and no text of the answer.
func getJSON(ctx context.Context, client *http.Client, from, token string, most int64, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return errors.New("the URL is not valid")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return plain(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return statusError(resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return plain(err)
	case int64(len(text)) > most:
		return fmt.Errorf("the answer has more than %d MiB", most>>20)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return errors.New("the answer is not the JSON that was expected")
	}
	return nil
}

// statusError is the status of an answer that is not what was asked for.
type statusError int

func (s statusError) Error() string { return fmt.Sprintf("status %d", int(s)) }

// plain returns an error without the URL.
func plain(err error) error {
	var waited interface{ Timeout() bool } // before the answer or within it
	if errors.As(err, &waited) && waited.Timeout() {
		return fmt.Errorf("no answer within %s", timeout)
	}
	if of := (*url.Error)(nil); errors.As(err, &of) {
		return of.Err
	}
	return err
}
