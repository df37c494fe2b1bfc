package explain

import (
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/measured"
)

// stream is a request in the gateway. It implements [host.GatewayStream].
type stream struct {
	cluster, route string
	headers        [][2]string
	body           []byte
}

func (s *stream) Cluster() string             { return s.cluster }
func (s *stream) Route() string               { return s.route }
func (s *stream) RequestHeaders() [][2]string { return s.headers }

func (s *stream) RequestBody(from, most int) []byte {
	from = min(from, len(s.body))
	return append([]byte(nil), s.body[from:min(from+most, len(s.body))]...)
}

// A trial is never sent anywhere, so the other methods of host.GatewayStream have nothing to do.

func (s *stream) HoldBody(int)                     {}
func (s *stream) ReleaseHeaders()                  {}
func (s *stream) Steer(string, []string) error     { return nil }
func (s *stream) Unsteer()                         {}
func (s *stream) SubsetHint() []byte               { return nil }
func (s *stream) Client() string                   { return "" }
func (s *stream) ServedBy() string                 { return "" }
func (s *stream) SetRequestHeader(string, string)  {}
func (s *stream) RemoveRequestHeader(string)       {}
func (s *stream) SetCluster(string, string)        {}
func (s *stream) ResponseHeader(string) string     { return "" }
func (s *stream) ResponseHeaders() [][2]string     { return nil }
func (s *stream) SetResponseHeader(string, string) {}
func (s *stream) RemoveResponseHeader(string)      {}
func (s *stream) ResponseBody(int, int) []byte     { return nil }
func (s *stream) Attempts() int                    { return 0 }
func (s *stream) Details() string                  { return "" }
func (s *stream) SetNote([]byte)                   {}
func (s *stream) SetFields([]measured.Field)       {}
func (s *stream) LogFields([]measured.Field)       {}
func (s *stream) Note() string                     { return "" }
func (s *stream) Resume()                          {}
func (s *stream) Reply(int, [][2]string, string)   {}

var _ host.GatewayStream = (*stream)(nil)
