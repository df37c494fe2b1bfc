// Package gateways is how commands are told which gateways to look at: by arguments, flags, or a file.
package gateways

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warmgate/warmgate/internal/snapshot"
)

// Flags are the flags of a command.
type Flags struct {
	gateways, inspects []string
	tokenFile, config  string
	redis              redisOptions
}

// redisOptions is where Redis is, as flags and files have it.
type redisOptions struct {
	URL          string `yaml:"url"`
	PasswordFile string `yaml:"password_file"`
	CAFile       string `yaml:"ca_file"`
}

// Help explains the arguments, for the long description of a command.
const Help = `A gateway is named by the address of its administration, such as http://127.0.0.1:15000 behind kubectl
port-forward, or by a Unix socket such as admin.sock. Where lb_config.inspect is switched on, --inspect names the
plugin's own API, which knows more. Several gateways, with names and regions, are best listed in a file, with the Redis
that a snapshot reads:

  gateways:
  - {name: eu-1, region: eu, admin: "http://10.0.0.1:15000", inspect: "http://10.0.0.1:8080/warmgate/inspect",
     token_file: eu.token}
  redis: {url: "rediss://user@10.0.0.9:6379/0", password_file: redis.password}`

// Add adds the flags that name gateways to a command.
func (f *Flags) Add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringArrayVar(&f.gateways, "gateway", nil, "`[NAME=]ADDRESS` of a gateway's administration")
	flags.StringArrayVar(&f.inspects, "inspect", nil,
		"`[NAME=]URL` of the plugin's API at a gateway; the path is /warmgate/inspect if there is none")
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` with the token of that API")
	flags.StringVar(&f.config, "config", "", "YAML `file` that lists gateways and Redis, as above")
}

// AddRedis adds the flags that name the Redis that gateways share.
func (f *Flags) AddRedis(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.redis.URL, "redis", "",
		"`URL` of the Redis that gateways share: redis://user@host:6379/0, rediss:// with TLS, unix:/path")
	flags.StringVar(&f.redis.PasswordFile, "redis-password-file", "", "`file` with the password of Redis")
	flags.StringVar(&f.redis.CAFile, "redis-ca", "", "`file` with the certificates that the Redis is verified by")
}

// Sources returns the gateways that the arguments, the flags and the file name, and Redis, nil for none.
func (f *Flags) Sources(args []string) ([]snapshot.Source, *snapshot.RedisSource, error) {
	all, redis := new(list), f.redis
	if f.config != "" {
		file, err := readFile(f.config)
		if err != nil {
			return nil, nil, err
		}
		all = &file.list
		if redis == (redisOptions{}) {
			redis = file.redis
		}
	}
	for _, arg := range slices.Concat(args, f.gateways) {
		if err := all.addAdmin(arg); err != nil {
			return nil, nil, err
		}
	}
	for _, arg := range f.inspects {
		if err := all.addInspect(arg); err != nil {
			return nil, nil, err
		}
	}
	if len(all.sources) == 0 {
		return nil, nil, errors.New("no gateway is named: its administration is often at http://127.0.0.1:15000, " +
			"http://127.0.0.1:9901 or admin.sock")
	}
	token, err := ReadSecret(f.tokenFile)
	if err != nil {
		return nil, nil, err
	}
	used := token == ""
	for i := range all.sources {
		if s := &all.sources[i]; s.Inspect != "" {
			s.Token, used = cmp.Or(s.Token, token), true
		}
	}
	if !used {
		return nil, nil, errors.New("there is a token and no URL of the plugin's API: want --inspect")
	}
	shared, err := redis.source()
	return all.sources, shared, err
}

// list collects gateways.
type list struct{ sources []snapshot.Source }

// named splits [NAME=]ADDRESS. An address has an = behind its first colon, or slash, if at all.
func named(arg string) (name, addr string) {
	if at := strings.IndexAny(arg, "=:/"); at >= 0 && arg[at] == '=' {
		return arg[:at], arg[at+1:]
	}
	return "", arg
}

// addAdmin adds a gateway.
func (l *list) addAdmin(arg string) error {
	name, written := named(arg)
	addr, host, err := adminAddress(written)
	if err != nil {
		return err
	}
	return l.add(snapshot.Source{Name: cmp.Or(name, host), Admin: addr})
}

// add adds a gateway, whose name must not be there yet.
func (l *list) add(s snapshot.Source) error {
	if l.find(s.Name) != nil {
		return fmt.Errorf("two gateways have the name %s: name them, as in NAME=ADDRESS", s.Name)
	}
	l.sources = append(l.sources, s)
	return nil
}

func (l *list) find(name string) *snapshot.Source {
	for i := range l.sources {
		if l.sources[i].Name == name {
			return &l.sources[i]
		}
	}
	return nil
}

// addInspect adds the plugin's API to a gateway, or a gateway that has no more than that. Without a name it is that of
// the only gateway.
func (l *list) addInspect(arg string) error {
	name, written := named(arg)
	addr, host, err := inspectAddress(written)
	if err != nil {
		return err
	}
	of := l.find(name)
	if name == "" && len(l.sources) == 1 {
		of = &l.sources[0]
	}
	switch {
	case of == nil && name == "" && len(l.sources) > 1:
		return fmt.Errorf("%s: of which gateway is it? Write NAME=URL", host)
	case of == nil:
		return l.add(snapshot.Source{Name: cmp.Or(name, host), Inspect: addr})
	case of.Inspect != "":
		return fmt.Errorf("the gateway %s has two URLs of the plugin's API", of.Name)
	}
	of.Inspect = addr
	return nil
}

// adminAddress checks an address of an administration. It returns a name for it as well.
func adminAddress(written string) (addr, name string, err error) {
	path, isSocket := strings.CutPrefix(written, "unix:")
	if path = strings.TrimPrefix(path, "//"); isSocket && path != "" {
		return "unix:" + path, path, nil
	}
	info, err := os.Stat(written)
	if err == nil && info.Mode()&os.ModeSocket != 0 || strings.HasSuffix(written, ".sock") {
		return "unix:" + written, written, nil // else one that is not there would be asked for as a host
	}
	return webAddress(written)
}

// inspectAddress checks an address of the plugin's API.
func inspectAddress(written string) (addr, name string, err error) {
	addr, name, err = webAddress(written)
	if err != nil {
		return "", "", err
	}
	if u, _ := url.Parse(addr); u.Path == "" || u.Path == "/" {
		addr = strings.TrimSuffix(addr, "/") + "/warmgate/inspect"
	}
	return addr, name, nil
}

// webAddress checks an address of the web. Its errors do not repeat the address, which may have a password.
func webAddress(written string) (addr, host string, err error) {
	if !strings.Contains(written, "://") {
		written = "http://" + written
	}
	u, err := url.Parse(written)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", "", errors.New("an address is not valid: want http://host:port, https://host:port or a Unix socket")
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return "", "", errors.New("an address has a query: want http://host:port, and perhaps a path")
	}
	return written, u.Host, nil
}

// source returns where Redis is, nil if no address was given.
func (o *redisOptions) source() (*snapshot.RedisSource, error) {
	if o.URL == "" {
		if o.PasswordFile != "" || o.CAFile != "" {
			return nil, errors.New("there is no URL of the Redis")
		}
		return nil, nil
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the URL of Redis is not valid: want redis://user@host:6379/0")
	}
	s := new(snapshot.RedisSource)
	switch u.Scheme {
	case "unix":
		s.Address = "unix:" + cmp.Or(u.Opaque, u.Path)
	case "redis", "rediss":
		s.Address = u.Host
		if u.Port() == "" {
			s.Address = u.Host + ":6379"
		}
		if db := strings.TrimPrefix(u.Path, "/"); db != "" {
			if s.Database, err = strconv.Atoi(db); err != nil || s.Database < 0 {
				return nil, errors.New("the path of the URL of Redis is not the number of a database")
			}
		}
	default:
		return nil, errors.New("the URL of Redis begins with none of redis://, rediss:// and unix:/")
	}
	s.Username = u.User.Username()
	s.Password, _ = u.User.Password()
	if o.PasswordFile != "" {
		if s.Password, err = ReadSecret(o.PasswordFile); err != nil {
			return nil, err
		}
	}
	if u.Scheme == "rediss" {
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	}
	return s, o.trust(s.TLS)
}

// trust reads the certificates.
func (o *redisOptions) trust(into *tls.Config) error {
	if o.CAFile == "" {
		return nil
	}
	text, err := os.ReadFile(o.CAFile)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if into == nil || !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s: want PEM certificates, and a URL with rediss://", o.CAFile)
	}
	into.RootCAs = pool
	return nil
}
