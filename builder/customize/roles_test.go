package customize

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/media"
	"spore/cluster/role"
)

func TestARoleWithAnotherPartInTheRootIsRefused(t *testing.T) {
	const own, file = "../../examples/own-mqtt", "roles/own-mqtt.yaml"
	config := small(load(t, own))
	name := newFactory(t, config).build(t, config, media.Keys{}, "disk", nil)
	const user, health = "user: {name: own-mqtt}\n", "health: {port: 8883}\n"
	for title, tc := range map[string]struct {
		file, old, text string
		refused         bool
	}{
		"another user":      {file, user, "user: {name: broker}\n", true},
		"a group":           {file, user, "user: {name: own-mqtt, groups: [dialout]}\n", true},
		"tests":             {file, health, health + "tests: [{command: [mosquitto_sub, --help]}]\n", true},
		"needs":             {file, health, health + "needs: {capabilities: [CAP_NET_RAW]}\n", true},
		"a health command":  {file, health, "health: {command: [mosquitto_sub, --help]}\n", true},
		"another directory": {file, "/var/lib/own-mqtt, mode", "/var/lib/own-mqtt-2, mode", true},
		"another setting":   {"services/own-mqtt.yaml", "port: 8883", "port: 8884", false},
		"another template":  {"roles/own-mqtt/mosquitto.conf.tmpl", "persistence true", "persistence true\n# Another text.", false},
		"another mode":      {file, "template: acl.tmpl\n    mode: \"0600\"", "template: acl.tmpl\n    mode: \"0400\"", false},
		"the description":   {file, "MQTT broker of the plant", "The broker", false},
		"what is live":      {file, "[port, maxConnections, ", "[maxConnections, ", false},
	} {
		t.Run(title, func(t *testing.T) {
			c, err := Plan(Options{Image: name, Config: small(load(t, folder(t, own, [3]string{tc.file, tc.old, tc.text}))), Output: t.TempDir() + "/new"})
			if !tc.refused {
				require.NoError(t, err)
				c.Close()
				return
			}
			var refused *Refused
			require.ErrorAs(t, err, &refused)
			require.Contains(t, refused.Report.String(), file+":5:1: error: the image has other units, users, directories, disks, tests or needs "+
				"of this role; build the image again")
		})
	}
}

func TestADiskOfARoleIsInTheRoot(t *testing.T) {
	config := load(t, "../../examples/own-mqtt")
	was := config.Roles[0]
	with := *was
	require.True(t, sameInRoot(was, &with))
	with.Disks = &role.Disks{Use: was.Name, At: "/var/lib/own-mqtt-disks"}
	require.False(t, sameInRoot(was, &with))
	require.False(t, sameInRoot(&with, was))
}
