//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/client"
)

// store is the store of a machine, and who asks it.
type store struct {
	g         *guest
	passwords map[string]string
}

// ask returns the answer to a command of a user on a connection of its own, and what went wrong.
func (s store) ask(user string, words ...string) (string, error) {
	s.g.t.Helper()
	address, err := s.g.Address("tcp", edgeIP+":6379")
	require.NoError(s.g.t, err)
	c, err := client.DialValkey(address, user, s.passwords[user])
	if err != nil {
		return "", err
	}
	defer c.Close()
	answer, err := c.Do(words...)
	return strings.Join(answer, " "), err
}

// becomes waits until a command of the default user has the answer.
func (s store) becomes(want string, words ...string) {
	s.g.t.Helper()
	s.g.within(strings.Join(words, " ")+" is "+want, func() error {
		got, err := s.ask("", words...)
		if err == nil && got != want {
			err = fmt.Errorf("the answer is %q", got)
		}
		return err
	})
}

// Roles that the plant wrote itself: a package of Debian with a file of passwords, a broker of MQTT with an authority
// of its own, a program compiled from a folder, a service in Python, a static binary, and a script that a timer starts.
// Their settings are changed while they run, and one is given a quota for what it has kept. An update brings other
// programs; the machine takes it at the start after a power cut. That other programs and settings come and go, and that
// roles are removed, is in TestRolesOfThePlantsOwnComeAndGo (test/nspawn), too.
func TestRolesOfThePlantsOwnServeAreChangedAndOutliveAPowerCut(t *testing.T) {
	inTurn(t)
	p := newOwnPlant(t)
	c := withConsole(p.machine(t, "own-valkey", "6379", "8643", "8090", "8091", "8883"))
	c.Memory = p.memory()
	c.Disks = append(c.Disks, emptyStoreDisk(t))
	g := boot(t, c)
	p.on(g)
	first := g.running()
	secret := func(id string) string {
		require.Contains(t, p.keys.Secrets, id)
		return string(p.keys.Secrets[id].Value)
	}
	passwords := map[string]string{
		"": secret("valkey-password"), "line-a": secret("valkey-settings/valkey-line-a"), "gateway": secret("gateway-settings/valkey-gateway"),
	}
	s := store{g, passwords}

	t.Run("its roles are in the status line", func(t *testing.T) {
		require.Equal(t, []string{"gateway", "logs-store", "metrics-store", "own-mqtt", "pulse", "recorder", "report", "valkey"}, first.Roles)
		for _, unit := range []string{"valkey-server.service", "own-mqtt.service", "recorder.service", "pulse.service", "report.timer", "victoria-metrics.service"} {
			require.Equal(t, "active", first.Services[unit], first.Raw)
		}
		require.Contains(t, first.Services, "gateway.service", first.Raw)
		require.NotContains(t, first.Services, "report.service", "it runs now and then")
	})
	t.Run("the program writes what it reads", func(t *testing.T) {
		s.becomes("1000", "GET", "device:pressure")
		s.becomes("1001", "GET", "device:temperature")
	})
	t.Run("a setting is in its file", func(t *testing.T) { s.becomes("maxmemory 134217728", "CONFIG", "GET", "maxmemory") })
	t.Run("who has no password is refused, and who has a wrong one", func(t *testing.T) {
		_, err := store{g, nil}.ask("", "GET", "device:pressure")
		require.ErrorContains(t, err, "NOAUTH")
		for _, user := range []string{"", "line-a"} {
			_, err = store{g, map[string]string{user: "wrong"}}.ask(user, "PING")
			require.ErrorContains(t, err, "WRONGPASS")
		}
	})
	t.Run("a user of the settings writes its own keys alone", func(t *testing.T) {
		got, err := s.ask("line-a", "SET", "line-a:count", "42")
		require.NoError(t, err)
		require.Equal(t, "OK", got)
		_, err = s.ask("line-a", "SET", "device:pressure", "0")
		require.ErrorContains(t, err, "NOPERM")
	})
	t.Run("a service in Python keeps measurements", func(t *testing.T) {
		p.page("8090", "/", `"title": "Line 1", "version": "1"`)
		p.measure("pressure", "1013.25")
		p.page("8090", "/series/pressure", "[1013.25]")
	})
	mqtt := p.broker(t)
	mqtt.servesItsUsers(t, g)
	t.Run("a static binary answers", func(t *testing.T) { p.page("8091", "/", "hello from version 1, start 1\n") })
	t.Run("a timer has its service started", func(t *testing.T) { p.logs("report", `wrote report 1: Hall 3`) })
	const well = `(?m)^.*own-roles +ok +gateway .*; own-mqtt .*; pulse .*; recorder .*; report .*; valkey .*$`
	t.Run("its operator is told that the roles do their work", func(t *testing.T) {
		p.says("the health of all roles is ok", well, "health", "--all")
	})
	t.Run("its status has all roles, and no remark about them", func(t *testing.T) {
		p.says("the node is up", `(?m)^edge-01 +running .* gateway, logs-store, metrics-store, own-mqtt, pulse, recorder, report, valkey +\S+ +[^.\n]*$`, "status")
	})
	t.Run("pushed settings restart their units alone", func(t *testing.T) {
		p.Settings(t)
		out, err := p.push(p.image)
		require.NoError(t, err)
		// report.service is named only if it ran just then.
		require.Regexp(t, `(?m)edge-01 has it in effect, after a restart of pulse.service, recorder.service, (report.service, )?valkey-server.service$`, out)
		s.becomes("maxmemory 100663296", "CONFIG", "GET", "maxmemory")
		p.page("8090", "/", `"title": "Line 2", "version": "1"`)
		p.page("8090", "/series/pressure", "[1013.25]")
		p.page("8091", "/", "welcome from version 1, start 2\n")
	})
	var told time.Time
	t.Run("the store of metrics has its data on its disk", func(t *testing.T) { told = p.storesOnItsDisk() })
	g.loggedIn()
	p.takesTheDisk()
	// Until the store is sure that its disk is missing.
	op := mqtt.mustDial(t, g, edgeIP, "edge-01", "operator")
	saved := p.saves("own-mqtt")
	require.NoError(t, op.Publish("sensors/kept", "42", true))
	// It says that it begins. The third save begins when the second has ended, whose fsync(2) has brought the name of the
	// first one's file to the disk.
	g.within("the broker has saved what it has, and its name", func() error {
		if n := p.saves("own-mqtt"); n < saved+3 {
			return errors.Join(fmt.Errorf("it has saved %d times", n-saved), op.Publish("sensors/next", strconv.Itoa(n), true))
		}
		return nil
	})
	t.Run("a timer has its service started again and again, and what it starts has the settings", func(t *testing.T) {
		p.logs("report", `wrote report [2-9]: Hall 4`)
	})
	p.Programs(t, "2")
	p.Replace(t, "roles/recorder.yaml", "path: /var/lib/recorder}", "path: /var/lib/recorder, quota: 16MiB}")
	other := p.build()
	t.Run("the store waits for its disk, and starts when it comes back", func(t *testing.T) { p.waitsForItsDisk(told) })

	root := systemOf(t, first).Configuration.RootHash
	out, err := p.push(other)
	require.NoError(t, err)
	require.Contains(t, out, "edge-01 has it on its disk, and takes it at its next start")
	p.measure("pressure", "1012")
	got, err := s.ask("line-a", "SET", "line-a:last", "acknowledged")
	require.NoError(t, err)
	require.Equal(t, "OK", got)
	g.off()

	c.Name += "-again"
	g = boot(t, c)
	s.g = g
	p.on(g)
	again := g.running()
	require.NotEqual(t, root, systemOf(t, again).Configuration.RootHash)
	t.Run("an update brings other programs, and they find what those before have kept", func(t *testing.T) {
		p.page("8090", "/", `"title": "Line 2", "version": "2"`)
		p.page("8090", "/series/pressure", "[1012.0, 1013.25]")
		p.page("8091", "/", "welcome from version 2, start 3\n")
		p.logs("report", `wrote report [0-9]+ by version 2: Hall 4`)
		s.becomes("42", "GET", "line-a:count")
	})
	t.Run("what was acknowledged is there after a power cut", func(t *testing.T) {
		s.becomes("42", "GET", "line-a:count")
		s.becomes("acknowledged", "GET", "line-a:last")
		p.page("8090", "/series/pressure", "[1012.0, 1013.25]")
	})
	t.Run("so is a message that the broker has saved", func(t *testing.T) { mqtt.hasKept(t, g) })
	t.Run("the pushed settings are there, too", func(t *testing.T) {
		s.becomes("maxmemory 100663296", "CONFIG", "GET", "maxmemory")
		p.page("8090", "/", `"title": "Line 2", "version": "2"`)
	})
	t.Run("the store of logs has what each start has said", func(t *testing.T) {
		for _, said := range []string{`wrote report 1: Hall 3`, `wrote report [0-9]+ by version 2: Hall 4`} {
			p.says("the logs of both starts", `(?m)^edge-01 .* report.*: `+said+`$`, "logs", "--since", "1d", "--grep", said)
		}
	})
	t.Run("the program writes again", func(t *testing.T) {
		_, err := s.ask("", "SET", "device:pressure", "0")
		require.NoError(t, err)
		s.becomes("1000", "GET", "device:pressure")
	})
	t.Run("the store has what it had, on its disk and nowhere else", func(t *testing.T) {
		g.loggedIn()
		p.had(told)
	})
	t.Run("a quota holds the role that has one, with what it kept before, and nobody else", func(t *testing.T) {
		require.Empty(t, again.State.Warning)
		p.says("how much of the quota is free", `(?m)^.* quotas +ok +9[0-9] % of /var/lib/recorder is free \(1[45] of 16 MiB\)$`, "health", "--all")
		const fill = "setpriv --reuid recorder --regid recorder --clear-groups dd if=/dev/zero of=/var/lib/recorder/fill bs=1M count=64"
		require.Contains(t, strings.Join(g.shell(fill), "\n"), "Disk quota exceeded")
		p.says("that it is full", `(?m)^.* quotas +warning +0 % of /var/lib/recorder is free`, "health")
		require.Error(t, p.tryMeasure("pressure", "1009"))
		got, err := s.ask("line-a", "SET", "line-a:last", "while another is full")
		require.NoError(t, err)
		require.Equal(t, "OK", got)
		require.Empty(t, g.shell("rm /var/lib/recorder/fill"))
		p.measure("pressure", "1008")
		p.page("8090", "/series/pressure", "[1008.0, 1012.0,")
	})
	t.Run("its operator is told that they do their work again", func(t *testing.T) {
		p.says("the health of all roles is ok", well, "health", "--all")
	})
	p.runs("the other root", func(hash string) bool { return hash != root })
}
