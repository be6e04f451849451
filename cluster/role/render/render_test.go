package render_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster"
	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/cluster/role/render"
	"spore/cluster/role/setting"
	"spore/cluster/spec"
	"spore/services/rendering"
)

// valkey is the role of examples/own-valkey.
func valkey(t testing.TB) *role.Definition {
	c, _ := cluster.LoadDir("../../../examples/own-valkey")
	require.Len(t, c.Roles, 2)
	return c.Roles[1]
}

// read makes settings of JSON, as a node does.
func read(t testing.TB, d *role.Definition, text string) *role.Settings {
	s := d.NewSettings()
	require.NoError(t, json.Unmarshal([]byte(text), s))
	return s
}

// input is what a node renders from.
func input(own *role.Settings) rendering.Input {
	return rendering.Input{
		Cluster: &facts.Cluster{Name: "plant", Domain: "plant.example", Members: map[string][]string{"valkey": {"edge-01", "edge-02"}}, Services: spec.Services{own}},
		Node:    &facts.Node{Name: "edge-01", Hostname: "edge-01", FQDN: "edge-01.plant.example", IPs: []string{"10.77.0.11"}, Roles: []string{"valkey"}},
		Hosts:   strings.NewReader("10.77.0.11 edge-01.plant.example edge-01\n10.77.0.12 edge-02.plant.example edge-02\n"),
		Memory:  4 << 30, Addresses: []netip.Addr{netip.MustParseAddr("10.77.0.11")},
		Secret: func(ref string) ([]byte, error) {
			if ref == "lost" {
				return nil, errors.New("the secret \"lost\" was not given to this unit")
			}
			return []byte("S3CRET-" + ref), nil
		},
		SecretPath: func(ref string) string { return "/run/credentials/valkey-server.service/secret_" + ref },
		Authority:  func(name string) ([]byte, error) { return []byte("CERTIFICATE of " + name), nil },
	}
}

// A role reads the address of another one's node, and the password that both name.
func TestTheFileOfAGateway(t *testing.T) {
	c, _ := cluster.LoadDir("../../../examples/own-valkey")
	d := c.Roles[0]
	own := read(t, d, `{"device": "10.77.0.20:502", "interval": "1.5s", "registers": [{"address": 7, "key": "device:x"}], "user": "gateway", "password": {"secretRef": "valkey-gateway"}}`)
	in := input(own)
	in.Cluster.Members["gateway"] = []string{"edge-01"}
	got, err := render.Files(t.Context(), d, in)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, "/run/gateway/gateway.json", got[0].Path)
	require.JSONEq(t, `{"device": "10.77.0.20:502", "everyMillis": 1500, "registers": [{"address": 7, "key": "device:x"}],
		"store": "10.77.0.11:6379", "user": "gateway", "password": "S3CRET-valkey-gateway"}`, string(got[0].Data))
}

func TestTheFilesOfARole(t *testing.T) {
	d := valkey(t)
	own := read(t, d, `{"maxMemory": 134217728, "users": [{"name": "line-a", "password": {"secretRef": "valkey-line-a"}, "keys": "line-a:*"}]}`)
	want := `# Rendered from roles/valkey/valkey.conf.tmpl; made again at each start.
bind 10.77.0.11 127.0.0.1
port 6379
supervised systemd
daemonize no
dir /var/lib/valkey
logfile ""
maxmemory 134217728
maxmemory-policy noeviction
# A key that a client was told of outlives a power cut.
appendonly yes
appendfsync always
save 60 1
requirepass S3CRET-valkey-password
user line-a on >S3CRET-valkey-line-a ~line-a:* +@all -@admin -@dangerous
# Another one: edge-02 at 10.77.0.12
`
	for range 2 {
		got, err := render.Files(t.Context(), d, input(own))
		require.NoError(t, err)
		require.Equal(t, []render.File{{Path: "/etc/valkey/valkey.conf", Data: []byte(want), Mode: 0o640, Owner: "valkey", Group: "valkey"}}, got)
	}
}

func TestAFileThatCannotBeRendered(t *testing.T) {
	one := func(text string, secrets ...string) *role.Definition {
		return &role.Definition{
			Name: "x", Units: []string{"x.service"}, Files: []role.File{{Path: "/run/x/x", Template: "x.tmpl", Secrets: secrets}},
			Secrets:   map[string]role.Secret{"x-tls": {Certificate: &role.Certificate{}}},
			Settings:  map[string]setting.Type{"who": {Type: setting.SecretOf}, "name": {Type: setting.String}},
			Templates: map[string]string{"x.tmpl": text},
		}
	}
	for name, tc := range map[string]struct {
		d        *role.Definition
		settings string
		edit     func(*rendering.Input)
		want     string
	}{
		"a secret of another service": {d: one(`{{secret (print "mqtt-" "key")}}`), want: `line 1: <secret (print "mqtt-" "key")>: the file does not name the secret "mqtt-key"; add it to its secrets in roles/x.yaml`},
		"the file of one":             {d: one(`{{secretPath "mqtt-key"}}`), want: `line 1: <secretPath "mqtt-key">: the file does not name the secret "mqtt-key"; add it to its secrets in roles/x.yaml`},
		"one that settings name":      {d: one(`{{secret .Settings.who}}`), settings: `{"who": {"secretRef": "mqtt-key"}}`, want: `line 1: <secret .Settings.who>: the file does not name the secret "mqtt-key"; add it to its secrets in roles/x.yaml`},
		"one that nobody brought":     {d: one(`{{secret "lost"}}`, "lost"), want: `line 1: <secret "lost">: the secret "lost" was not given to this unit`},
		"an authority of another":     {d: one(`{{authority "mqtt"}}`), want: `line 1: <authority "mqtt">: the role has no authority "mqtt"`},
		"no template":                 {d: &role.Definition{Name: "x", Files: []role.File{{Path: "/run/x/x", Template: "y.tmpl"}}}, want: "internal error: there is no template y.tmpl"},
		"a template without end":      {d: one(`{{range 1000000000}}{{end}}`), want: "render x.tmpl: it repeats itself too often; look for a range or template without end"},
		"a template that is none":     {d: one(`{{`), want: "template x.tmpl, line 1: unclosed action"},
		"a member without address":    {d: one(`{{range .Members "valkey"}}{{.Address}}{{end}}`), edit: func(in *rendering.Input) { in.Hosts = strings.NewReader("") }, want: "node edge-02 of role valkey has no address in cluster.yaml; give it one under ips"},
		"a node without address":      {d: one(`{{.Node.Address}}`), edit: func(in *rendering.Input) { in.Node, in.Addresses = &facts.Node{Name: "edge-01"}, nil }, want: "the node has no address yet"},
		"a hosts file that is none":   {d: one(``), edit: func(in *rendering.Input) { in.Hosts = strings.NewReader("x y\n") }, want: "hosts file of the cluster part, line 1"},
		"a service that is off":       {d: one(``), edit: func(in *rendering.Input) { in.Cluster.Services = nil }, want: "cluster.yaml does not list the service x"},
		"nobody to ask for secrets":   {d: one(`{{secret "a"}}`, "a"), edit: func(in *rendering.Input) { in.Secret = nil }, want: "the node has no secrets"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.settings == "" {
				tc.settings = "{}"
			}
			in := input(read(t, tc.d, tc.settings))
			if tc.edit != nil {
				tc.edit(&in)
			}
			_, err := render.Files(t.Context(), tc.d, in)
			require.ErrorContains(t, err, tc.want)
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("5 s are over"))
	d := one("x")
	_, err := render.Files(ctx, d, input(read(t, d, "{}")))
	require.EqualError(t, err, "render the file /run/x/x of the role x: render x.tmpl: it took too long: 5 s are over")
}

func TestACertificateInAFile(t *testing.T) {
	d := &role.Definition{
		Name: "x", Units: []string{"x.service"}, Secrets: map[string]role.Secret{"x-tls": {Certificate: &role.Certificate{}}},
		Files:     []role.File{{Path: "/run/x/x", Template: "x.tmpl", Mode: "0600", Owner: "x", Secrets: []string{"x-tls-certificate", "x-tls-key"}}},
		Templates: map[string]string{"x.tmpl": `{{secretPath "x-tls-key"}} {{secret "x-tls-certificate"}} {{authority "x"}}`},
	}
	got, err := render.Files(t.Context(), d, input(read(t, d, "{}")))
	require.NoError(t, err)
	require.Equal(t, "/run/credentials/valkey-server.service/secret_x-tls-key S3CRET-x-tls-certificate CERTIFICATE of x.crt", string(got[0].Data))
	require.Equal(t, "x", got[0].Group)
	require.EqualValues(t, 0o600, got[0].Mode)
}
