package cluster

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"spore/cluster/spec"
	"spore/services/mqtt"
)

func TestTheExampleOfABrokerAsARoleIsWithoutFault(t *testing.T) {
	_, report := Check(os.DirFS("../examples/own-mqtt"), Options{Strict: true})
	require.Empty(t, messages(report))
}

// The mistakes in services/mqtt.yaml (bad_services_test.go) are found in the settings of a role that does the same.
//
// The role's language has no words for three of them: users that share a password and a user without an acl, which are
// warnings, and a password that is the entry of the key. One cannot be made: the certificate and key are no settings.
func TestMistakesInTheSettingsOfABrokerAsARole(t *testing.T) {
	const file = "services/own-mqtt.yaml"
	for name, tt := range map[string]struct{ old, new, want string }{
		"a port out of bounds":      {"port: 8883", "port: 88830", `5:7: error: port 88830 is out of bounds; write 1 to 65535`},
		"no users":                  {usersOf(t, file), "users: []\n", `9:8: error: users has 0 entries; write at least 1 entry`},
		"no list of users":          {usersOf(t, file), "", `5:1: error: the key "users" is missing; add it and write a list`},
		"a user twice":              {"name: operator", "name: sensor", `15:11: error: the name "sensor" is in the entries 1 and 2 of users; each entry has another one`},
		"a user with a colon":       {"name: operator", `name: "op:erator"`, `15:11: error: name "op:erator" does not have the form that the role asks for; write what matches [A-Za-z0-9][A-Za-z0-9._@-]{0,63}`},
		"a user with a line break":  {"name: operator", `name: "a\nuser b"`, `15:11: error: name "a\nuser b" has characters that do not belong there; write it in one line`},
		"a user without a password": {"    password: {secretRef: own-mqtt-operator}\n", "", `15:5: error: the key "password" is missing; add it and write {secretRef: NAME}`},
		"a password written out":    {"{secretRef: own-mqtt-operator}", "hunter22", "16:15: error: password holds a literal secret; it would be readable in every image: write `password: {secretRef: NAME}` and put the secret into the bundle under NAME"},
		"an unknown access":         {"access: write}", "access: publish}", `13:38: error: access "publish" is unknown; write read, write, readwrite or deny`},
		"a misspelt access":         {"access: write}", "access: wirte}", `13:38: error: access "wirte" is unknown; did you mean "write"?`},
		"# inside of a topic":       {`"commands/#"`, `"commands/#/x"`, `19:17: error: topic "commands/#/x" does not have the form that the role asks for; write what matches`},
		"+ inside of a level":       {`"commands/#"`, `"commands/a+"`, `19:17: error: topic "commands/a+" does not have the form that the role asks for; write what matches`},
		"an empty topic":            {`"commands/#"`, `""`, `19:17: error: topic has 0 characters; write at least 1 character`},
		"a topic with a blank":      {`"commands/#"`, `"commands/a "`, `19:17: error: topic "commands/a " does not have the form that the role asks for; write what matches`},
		"a topic with a line break": {`"commands/#"`, `"a\ntopic #"`, `19:17: error: topic "a\ntopic #" has characters that do not belong there; write it in one line`},
		"a topic twice":             {`"commands/#"`, `"sensors/#"`, `19:17: error: the topic "sensors/#" is in the entries 1 and 2 of acl; each entry has another one`},
		"connections below -1":      {"port: 8883", "maxConnections: -2", `5:17: error: maxConnections -2 is out of bounds; write -1 or more`},
		"too large a message":       {"port: 8883", "messageSizeLimit: 300000000", `5:19: error: messageSizeLimit 300000000 is out of bounds; write 0 to 268435455`},
	} {
		t.Run(name, func(t *testing.T) {
			files := folder(t, "../examples/own-mqtt")
			text := string(files[file].Data)
			require.Contains(t, text, tt.old)
			files[file] = &fstest.MapFile{Data: []byte(strings.Replace(text, tt.old, tt.new, 1))}
			_, report := Check(files, Options{})
			require.Contains(t, serious(report), file+":"+tt.want)
		})
	}
}

// usersOf is the list of users in a file.
func usersOf(t *testing.T, file string) string {
	text := string(folder(t, "../examples/own-mqtt")[file].Data)
	_, users, ok := strings.Cut(text, "users:\n")
	require.True(t, ok)
	return "users:\n" + users
}

func TestTopicsThatABrokerAsARoleTakes(t *testing.T) {
	for _, topic := range []string{"#", "+", "/", "a", "a/", "/a", "a//b", "a/#", "a/+", "+/+/#", "a b/c", "$SYS/#", "ä/ö"} {
		files := folder(t, "../examples/own-mqtt")
		const file = "services/own-mqtt.yaml"
		files[file] = &fstest.MapFile{Data: []byte(strings.Replace(string(files[file].Data), "commands/#", topic, 1))}
		_, report := Check(files, Options{Strict: true})
		require.Empty(t, messages(report), topic)
	}
}

// What the rest of Spore knows of the role is what it knows of the service, but for names.
func TestTheRowOfABrokerAsARole(t *testing.T) {
	c, report := LoadDir("../examples/own-mqtt")
	require.False(t, report.Failed())
	require.Len(t, c.Roles, 1)
	own, ours := c.Roles[0].Service(), mqtt.Service()
	require.Len(t, own.Programs, 1)
	program := own.Programs[0]
	require.Equal(t, ours.Programs[0].Packages, program.Packages)
	require.Equal(t, ours.Programs[0].NeedsSecrets, program.NeedsSecrets)
	require.Equal(t, ours.Programs[0].Ports[0].String(), program.Ports[0].String())
	require.Equal(t, ours.Renewal[0].Leaves, own.Renewal[0].Leaves)
	require.Equal(t, ours.Renewal[0].Signal, own.Renewal[0].Signal)
	require.Equal(t, ours.Authorities[0].Usage, own.Authorities[0].Usage)
	require.Equal(t, ours.Memory["mqtt-broker"](nil, nil), own.Memory["own-mqtt"](nil, nil))
	require.Equal(t, ours.Data[0].Package, own.Data[0].Package)

	live := map[string][]string{}
	for _, l := range own.Live {
		live[l.Path] = l.Units
	}
	for key := range c.Roles[0].Settings {
		require.Equal(t, []string{"own-mqtt.service"}, live["services.own-mqtt."+key], key)
	}
	edge, report := LoadDir("../examples/edge")
	require.False(t, report.Failed())
	ofRole, ofService := settingsJSON(t, c.Services.Get("own-mqtt")), settingsJSON(t, edge.Services.Get("mqtt"))
	for _, key := range []string{"port", "users"} {
		text := strings.NewReplacer("mqtt-password-", "own-mqtt-").Replace(string(ofService[key]))
		require.JSONEq(t, text, string(ofRole[key]), key)
	}
}

func settingsJSON(t *testing.T, s spec.Settings) map[string]json.RawMessage {
	text, err := json.Marshal(s)
	require.NoError(t, err)
	var out map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

// A machine can have both brokers, each at a port of its own.
func TestABrokerAsARoleBesideOurs(t *testing.T) {
	both := folder(t, "../examples/own-mqtt")
	both["services/mqtt.yaml"] = folder(t, "../examples/edge")["services/mqtt.yaml"]
	text := strings.Replace(string(both["cluster.yaml"].Data), "services: [own-mqtt]", "services: [own-mqtt, mqtt]", 1)
	text = strings.Replace(text, "roles: [own-mqtt]", "roles: [own-mqtt, mqtt-broker]", 1)
	both["cluster.yaml"] = &fstest.MapFile{Data: []byte(text)}
	_, report := Check(both, Options{Strict: true})
	require.Contains(t, serious(report), "port 8883/tcp is not free on node edge-01")
	own := string(both["services/own-mqtt.yaml"].Data)
	both["services/own-mqtt.yaml"] = &fstest.MapFile{Data: []byte(strings.Replace(own, "port: 8883", "port: 8884", 1))}
	_, report = Check(both, Options{Strict: true})
	require.Empty(t, messages(report))
}
