package role_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster"
	"spore/cluster/role"
	"spore/cluster/role/setting"
	"spore/cluster/spec"
	"spore/pki"
	"spore/services/service"
)

// valkey is the role of examples/own-valkey.
func valkey(t testing.TB) *role.Definition {
	c, _ := cluster.LoadDir("../../examples/own-valkey")
	require.Len(t, c.Roles, 2)
	return c.Roles[1]
}

func TestARoleIsARow(t *testing.T) {
	d := valkey(t)
	s := d.Service()
	require.Equal(t, "valkey", s.Name)
	require.Equal(t, []service.Role{{Name: "valkey", Target: "valkey.target", Service: "valkey", Programs: []string{"valkey"}}}, s.Roles)
	require.Equal(t, []service.Program{{
		Name: "valkey", Unit: "valkey-server.service", Packages: []string{"valkey-server", "valkey-tools"}, User: "valkey",
		Ports:   []service.Port{service.TCP(6379, "clients of Valkey").On(service.Node).Set("valkey.port")},
		Secrets: []string{"valkey-password"}, NeedsSecrets: true, Own: []string{"spore-role"},
	}}, s.Programs)
	require.Equal(t, "valkey", s.Settings().Service())
	require.NotSame(t, s.Settings(), s.Settings())
	require.Equal(t, []service.SecretRow{
		{Name: "valkey-password", Roles: []string{"valkey"}, Each: service.OneCluster, Form: service.FormPassword, Given: true, Length: 32, Alphabet: role.Alphabets["alphanumeric"]},
		{Name: "valkey-settings", Roles: []string{"valkey"}, Each: service.OneUser, Entry: "{user-secret}", Form: service.FormPassword, Given: true},
	}, s.Secrets)
	require.Equal(t, []service.Live{
		{Path: "services.valkey.eviction", Units: []string{"valkey-server.service"}},
		{Path: "services.valkey.maxMemory", Units: []string{"valkey-server.service"}},
		{Path: "services.valkey.port", Why: "roles/valkey.yaml does not list it under live"},
		{Path: "services.valkey.save", Units: []string{"valkey-server.service"}},
		{Path: "services.valkey.users", Units: []string{"valkey-server.service"}},
		{Path: "services.valkey", Why: "the role is told at the start whether it has settings"},
	}, s.Live)
	require.Equal(t, 256, s.Memory["valkey"](nil, nil))
	require.Equal(t, "`/var/lib/valkey`", s.Data[0].Keeps)
	require.Equal(t, "valkey-server", s.Data[0].Package)
	require.Nil(t, s.Disks)
}

func TestRowsOfOtherRoles(t *testing.T) {
	d := &role.Definition{
		Name: "opc", Description: "x", Programs: []string{"gateway"}, Units: []string{"gateway.service", "backup@daily.timer", "ask.socket"},
		Ports: []role.Port{{Port: 4840, For: "OPC UA"}, {Port: 5000, To: 5010, Protocol: "udp", At: "loopback", For: "parts"}},
		Secrets: map[string]role.Secret{
			"license": {Given: true}, "tls": {Certificate: &role.Certificate{Names: []string{"opc.{domain}"}}},
			"client": {Certificate: &role.Certificate{Authority: "opc-clients", Usage: []string{"client", "server"}}},
		},
	}
	s := d.Service()
	require.Equal(t, []string{"opc", "opc-backup-daily", "opc-ask"}, s.Roles[0].Programs)
	require.Equal(t, []string{"gateway.service", "backup@daily.service", "ask.service"}, []string{s.Programs[0].Unit, s.Programs[1].Unit, s.Programs[2].Unit})
	require.Empty(t, s.Programs[0].Payloads, "what is in programs/ is there anyway")
	require.Empty(t, s.Programs[0].Own, "it renders nothing")
	require.Equal(t, "root", s.Programs[0].User)
	require.Empty(t, s.Programs[1].Ports)
	require.False(t, s.Programs[0].NeedsSecrets)
	require.Equal(t, []string{"4840/tcp", "127.0.0.1:5000-5010/udp"}, []string{s.Programs[0].Ports[0].String(), s.Programs[0].Ports[1].String()})
	for _, p := range s.Programs {
		require.Equal(t, []string{"client-certificate", "client-key", "license", "tls-certificate", "tls-key"}, p.Secrets)
	}
	require.Equal(t, []service.AuthorityRow{
		{Name: "opc", Kind: service.CA, Title: "Spore opc CA", Usage: service.Server},
		{Name: "opc-clients", Kind: service.CA, Title: "Spore opc-clients CA", Usage: service.Server | service.Client},
	}, s.Authorities)
	require.Len(t, s.Leaves, 2)
	require.Equal(t, "opc-tls", s.Leaves[1].Name)
	require.Equal(t, append([]string{"opc.{domain}"}, service.OwnNames...), s.Leaves[1].SANs)
	require.Equal(t, []string{"tls-certificate", "tls-key"}, []string{s.Leaves[1].Certificate, s.Leaves[1].Key})
	require.Equal(t, []service.SecretRow{{Name: "license", Roles: []string{"opc"}, Each: service.OneCluster, Form: service.FormGiven, Given: true}}, s.Secrets)
	require.Equal(t, 128, s.Memory["opc"](nil, nil))
	require.Nil(t, s.Disks)
	d.Disks = &role.Disks{Use: "opc", At: "/var/lib/opc-disks"}
	require.Equal(t, map[string]string{"opc": "opc"}, d.Service().Disks)
	require.Equal(t, "`/var/lib/opc-disks`", d.Service().Data[0].Keeps)
	require.Equal(t, []string{"spore-role"}, d.Service().Programs[0].Own)
	require.Equal(t, "programs/gateway", s.Data[0].Payload)
	require.Empty(t, s.Data[0].Keeps)
	require.Empty(t, s.Renewal, "without a signal, units are restarted for new certificates")
	for _, secret := range d.Secrets {
		if secret.Certificate != nil {
			secret.Certificate.Signal = "HUP"
		}
	}
	require.Equal(t, []service.Renewal{
		{Program: "opc", Leaves: service.Signals, Signal: "HUP"}, {Program: "opc-backup-daily", Leaves: service.Signals, Signal: "HUP"},
		{Program: "opc-ask", Leaves: service.Signals, Signal: "HUP"},
	}, d.Service().Renewal)
	require.Equal(t, []string{"gateway.service", "backup@daily.service", "ask.service"}, d.LogUnits())
	require.Equal(t, []string{"backup@daily.service", "ask.service"}, d.Triggered())
}

// read makes settings of JSON, as a node does.
func read(t testing.TB, d *role.Definition, text string) *role.Settings {
	s := d.NewSettings()
	require.NoError(t, json.Unmarshal([]byte(text), s))
	return s
}

func TestSettingsComeBackFromJSON(t *testing.T) {
	d := valkey(t)
	own := read(t, d, `{"maxMemory": 1048576, "users": [{"name": "a", "password": {"secretRef": "b"}}]}`)
	text, err := json.Marshal(spec.Services{own})
	require.NoError(t, err)
	require.JSONEq(t, `{"valkey": {"eviction": "noeviction", "maxMemory": 1048576, "port": 6379, "save": "1m0s", "users": [{"keys": "*", "name": "a", "password": {"secretRef": "b"}}]}}`, string(text))
	var all map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &all))
	again := read(t, d, string(all["valkey"]))
	values, err := again.Values()
	require.NoError(t, err)
	require.Equal(t, setting.Size(1<<20), values["maxMemory"])
	require.Equal(t, 6379, again.Port("port"))
	require.Zero(t, again.Port("maxMemory"))
	require.Equal(t, []string{"b"}, again.Secrets("users"))
	require.Equal(t, []string{"b"}, d.Service().UserSecrets(spec.Services{again}))
	require.Equal(t, 6379, d.Service().Port(spec.Services{again}, "port"))

	for text, want := range map[string]string{
		`{"port": "x"}`:            "settings of valkey: port: port is a text; write a whole number from 1 to 65535",
		`{"users": [{}]}`:          `settings of valkey: users.0: the key "name" is missing; add it and write a text`,
		`{"zzz": 1}`:               `settings of valkey: zzz: unknown key "zzz"; write eviction, maxMemory, port, save or users`,
		`[]`:                       "json: cannot unmarshal array into Go value of type map[string]interface {}",
		`{"users": [{"name": 1}]}`: "settings of valkey: users.0.name: name is a number where a text belongs; put it into quotes",
	} {
		require.EqualError(t, json.Unmarshal([]byte(text), d.NewSettings()), want)
	}
	require.ErrorContains(t, json.Unmarshal([]byte("{}"), new(role.Settings)), "are read with its definition")
}

// A secret that settings name and that the role makes itself is not made twice.
func TestAUsersSecretThatIsTheRolesOwn(t *testing.T) {
	d := valkey(t)
	own := read(t, d, `{"users": [{"name": "a", "password": {"secretRef": "valkey-password"}}, {"name": "b", "password": {"secretRef": "x"}}]}`)
	require.Equal(t, []string{"x"}, d.Service().UserSecrets(spec.Services{own}))
	require.Empty(t, d.Service().UserSecrets(nil))
}

// Package pki makes what the row of a role asks for, and gives it to nodes with the role.
func TestTheKeysOfARole(t *testing.T) {
	c, report := cluster.LoadDir("../../examples/own-valkey")
	require.False(t, report.Failed())
	shared, nodes := cluster.Facts(c)
	tree := pki.New(&shared)
	_, err := tree.Update(&shared, nodes, pki.Options{Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Random: rand.NewChaCha8([32]byte{1})})
	require.NoError(t, err)
	require.Regexp(t, "^[A-Za-z0-9]{32}$", string(tree.Secrets["valkey-password"].Value))
	require.Regexp(t, "^[A-Za-z0-9]{24}$", string(tree.Secrets["valkey-settings/valkey-line-a"].Value))
	share, err := pki.ShareOf(&shared, &nodes[0])
	require.NoError(t, err)
	var names []string
	for _, e := range share.Secrets {
		names = append(names, e.Name)
	}
	require.Subset(t, names, []string{"valkey-password", "valkey-line-a", "valkey-gateway"})
}

// The gateway says the password that the store checks.
func TestAPasswordThatTwoRolesNameIsOneSecret(t *testing.T) {
	c, report := cluster.LoadDir("../../examples/own-valkey")
	require.False(t, report.Failed())
	shared, nodes := cluster.Facts(c)
	share, err := pki.ShareOf(&shared, &nodes[0])
	require.NoError(t, err)
	var ids []string
	for _, e := range share.Secrets {
		if e.Name == "valkey-gateway" {
			ids = append(ids, e.ID)
		}
	}
	require.Equal(t, []string{"gateway-settings/valkey-gateway"}, ids)

	alone := nodes[0]
	for _, roles := range [][]string{{"valkey"}, {"gateway"}} {
		alone.Roles = roles
		share, err := pki.ShareOf(&shared, &alone)
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(share.Secrets, func(e pki.Entry) bool { return e.ID == ids[0] }), roles)
	}
}

func TestAQuotaIsGivenByTheProgramOfRoles(t *testing.T) {
	d := &role.Definition{Name: "held", Units: []string{"held.service"}, Directories: []role.Directory{{Path: "/var/lib/held"}}}
	require.False(t, d.HasQuotas())
	require.Zero(t, d.Directories[0].Bytes())
	require.Empty(t, d.Service().Programs[0].Own)
	d.Directories[0].Quota = "1.5GiB"
	require.True(t, d.HasQuotas())
	require.Equal(t, setting.Size(3<<29), d.Directories[0].Bytes())
	require.Equal(t, []string{"spore-role"}, d.Service().Programs[0].Own)
}

func TestATimerIsTheStarterOfItsService(t *testing.T) {
	d := &role.Definition{Name: "x", Units: []string{"a.timer", "a.path", "b.service"}}
	require.Equal(t, []string{"a.timer", "a.path"}, d.Starters("a.service"))
	require.Empty(t, d.Starters("b.service"))
	require.Empty(t, d.Starters("c.service"))
}
