// Package node is what nodes link of the service mqtt: how the configuration of mosquitto is rendered.
package node

import (
	"bytes"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"spore/services/mqtt"
	"spore/services/rendering"
)

// Renderings are the service's own, by program.
var Renderings = map[string]rendering.Func{"mosquitto": mosquitto}

const (
	// mosquittoIterations is what mosquitto_passwd uses. The hash never leaves this machine's memory, and mosquitto
	// computes it in its only thread at each connection: more would cost clients and protect nothing.
	mosquittoIterations = 101
	// mosquittoSalt is the length of a salt that every mosquitto 2.x reads, in bytes.
	mosquittoSalt = 12
	// metricsConnections are those at the collector's socket: it has one, and one more while it begins anew.
	metricsConnections = 4
	// maxMQTTString is the longest string of the protocol, in bytes (MQTT 3.1.1, 1.5.3).
	maxMQTTString = 65535
)

// mosquitto renders mosquitto.conf(5), a password file and an access control file.
func mosquitto(in rendering.Input) (map[string]rendering.File, error) {
	m := mqtt.Of(in.Cluster.Services)
	if m == nil {
		return nil, errors.New("the cluster has no mqtt settings; add services/mqtt.yaml")
	}
	for _, ref := range []string{m.TLS.Certificate.SecretRef, m.TLS.Key.SecretRef} {
		if _, err := in.Secret(ref); err != nil {
			return nil, fmt.Errorf("TLS listener: %w", err)
		}
	}
	passwords, err := mosquittoPasswords(in, m.Users)
	if err != nil {
		return nil, err
	}
	acl, err := mosquittoACL(m.Users)
	if err != nil {
		return nil, err
	}
	password, line, err := metricsUser(in, m)
	if err != nil {
		return nil, err
	}
	return map[string]rendering.File{
		"mosquitto.conf": {Data: mosquittoConf(in, m), Mode: 0o600},
		"passwords":      {Data: append(passwords, line...), Mode: 0o600},
		"acl":            {Data: fmt.Appendf(acl, "user %s\ntopic read $SYS/#\n", mqtt.MetricsUser), Mode: 0o600},

		mqtt.MetricsPassword: {Data: []byte(password), Mode: 0o600},
	}, nil
}

func mosquittoConf(in rendering.Input, m *mqtt.Settings) []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Rendered by spore-agent from services/mqtt.yaml; made again at each start.")
	// The collector of metrics asks here. It is the first listener, so that the limit of connections below is that of
	// the other one.
	line("listener 0 %s", filepath.Join(in.Dir, mqtt.MetricsSocket))
	line("max_connections %d", metricsConnections)
	line("listener %d", m.ListenPort())
	line("certfile %s", in.SecretPath(m.TLS.Certificate.SecretRef))
	line("keyfile %s", in.SecretPath(m.TLS.Key.SecretRef))
	line("tls_version tlsv1.2") // the lowest that is accepted
	if m.MaxConnections > 0 {
		line("max_connections %d", m.MaxConnections)
	}
	if m.MessageSizeLimit > 0 {
		line("message_size_limit %d", m.MessageSizeLimit)
	}
	line("allow_anonymous false")
	line("password_file %s", filepath.Join(in.Dir, "passwords"))
	line("acl_file %s", filepath.Join(in.Dir, "acl"))
	line("persistence true")
	line("persistence_location /var/lib/mosquitto/")
	// Saved when something changed, not by the clock: a retained message outlives a power cut, an idle broker leaves
	// the flash alone, and a busy one saves once for all that arrived while it was saving.
	line("autosave_on_changes true")
	line("autosave_interval 1")
	line("log_dest stderr")
	line("log_timestamp false") // the journal has one
	line("log_type error")
	line("log_type warning")
	line("log_type notice")
	line("log_type information")
	return b.Bytes()
}

// mosquittoPasswords is the password file: NAME:$7$ITERATIONS$SALT$HASH, PBKDF2 with SHA-512 (mosquitto_passwd(1)).
func mosquittoPasswords(in rendering.Input, users []mqtt.User) ([]byte, error) {
	var b bytes.Buffer
	for _, u := range users {
		if err := checkMQTTUser(u.Name); err != nil {
			return nil, err
		}
		password, err := in.Secret(u.Password.SecretRef)
		if err != nil {
			return nil, fmt.Errorf("password of user %s: %w", u.Name, err)
		}
		password = bytes.TrimSuffix(bytes.TrimSuffix(password, []byte("\n")), []byte("\r"))
		if len(password) == 0 {
			return nil, fmt.Errorf("password of user %s: secret %s is empty", u.Name, u.Password.SecretRef)
		}
		hash, err := mosquittoHash(password, salt(in.Cluster.ID, u.Name, password))
		if err != nil {
			return nil, fmt.Errorf("password of user %s: %w", u.Name, err)
		}
		fmt.Fprintf(&b, "%s:%s\n", u.Name, hash)
	}
	return b.Bytes(), nil
}

// metricsUser is the password of the collector of metrics, and its line of the password file. Who has the key of the
// listener is the broker; so what is made of the key tells nobody more, and rendering again gives the same.
func metricsUser(in rendering.Input, m *mqtt.Settings) (password, line string, err error) {
	key, err := in.Secret(m.TLS.Key.SecretRef)
	if err != nil {
		return "", "", fmt.Errorf("TLS listener: %w", err)
	}
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "spore mosquitto metrics %s", in.Cluster.ID)
	password = base64.RawURLEncoding.EncodeToString(h.Sum(nil))
	hash, err := mosquittoHash([]byte(password), salt(in.Cluster.ID, mqtt.MetricsUser, []byte(password)))
	if err != nil {
		return "", "", fmt.Errorf("password of the collector of metrics: %w", err)
	}
	return password, mqtt.MetricsUser + ":" + hash + "\n", nil
}

// salt depends on all that it keeps apart, so that rendering again gives the same bytes. It tells less about the password
// than the hash beside it does.
func salt(cluster, user string, password []byte) []byte {
	h := hmac.New(sha256.New, password)
	fmt.Fprintf(h, "spore mosquitto salt %s %s", cluster, user)
	return h.Sum(nil)[:mosquittoSalt]
}

func mosquittoHash(password, salt []byte) (string, error) {
	key, err := pbkdf2.Key(sha512.New, string(password), salt, mosquittoIterations, sha512.Size)
	if err != nil {
		return "", err
	}
	enc := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("$7$%d$%s$%s", mosquittoIterations, enc(salt), enc(key)), nil
}

// mosquittoACL is the access control file; a user without an entry may do nothing.
func mosquittoACL(users []mqtt.User) ([]byte, error) {
	var b bytes.Buffer
	for _, u := range users {
		if err := checkMQTTUser(u.Name); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "user %s\n", u.Name)
		for _, a := range u.ACL {
			switch a.Access {
			case "read", "write", "readwrite", "deny":
			default:
				return nil, fmt.Errorf("user %s, topic %q: access is %q, want read, write, readwrite or deny", u.Name, a.Topic, a.Access)
			}
			if err := checkLine("topic", a.Topic); err != nil {
				return nil, fmt.Errorf("user %s: %w", u.Name, err)
			}
			fmt.Fprintf(&b, "topic %s %s\n", a.Access, a.Topic)
		}
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// checkMQTTUser refuses names that the password file would read as something else.
func checkMQTTUser(name string) error {
	if err := checkLine("user name", name); err != nil {
		return err
	}
	if name == mqtt.MetricsUser {
		return fmt.Errorf("user name %q: the collector of metrics has this name", name)
	}
	if strings.Contains(name, ":") || strings.HasPrefix(name, "#") {
		return fmt.Errorf("user name %q: a colon or a leading # cannot stand in mosquitto's password file", name)
	}
	return nil
}

// checkLine refuses text that would not be read back as it is from a line of a file.
func checkLine(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("a %s is empty", what)
	case len(s) > maxMQTTString:
		return fmt.Errorf("a %s of %d bytes is longer than MQTT allows", what, len(s))
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%s %q has characters that cannot stand in a line", what, s)
	case strings.TrimSpace(s) != s:
		return fmt.Errorf("%s %q begins or ends with a space", what, s)
	}
	return nil
}
