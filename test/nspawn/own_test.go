//go:build e2e

package nspawn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/vm"
	"spore/test/client"
	"spore/test/ownplant"
	"spore/wire/machine"
)

// ownLab is the machine of a plant with roles of its own.
type ownLab struct {
	*Lab
	*ownplant.Folder
	node *Node
}

// TestRolesOfThePlantsOwnComeAndGo starts the same /var with three images: with the programs of version 1, with others
// and other settings, with the first again, as after `spore push --back`, and without two of the roles. What the roles
// have kept is there each time. The machine of test/e2e (ownrole_test.go) has the same roles, on a disk, with a kernel and
// power cuts of its own.
func TestRolesOfThePlantsOwnComeAndGo(t *testing.T) {
	f := ownplant.New(t, "../..", "10.77.0.2:502")
	f.Write(t, "services/metrics.yaml", "days: 7\ninterval: 5\n")
	l := &ownLab{Lab: New(t, Options{Source: "../..", Configs: f.Dir}), Folder: f}
	l.node = l.Node("edge-01")
	device, err := net.Listen("tcp", "10.77.0.2:502")
	require.NoError(t, err)
	ownplant.Device(t, device)
	l.node.Start()
	l.node.Running()

	var told time.Time
	l.Step("they keep what they are given", func(t *testing.T) {
		l.has("8090", "/", `"title": "Line 1", "version": "1"`)
		l.measure("1013.25")
		l.answers("42", "line-a", "INCRBY", "line-a:count", "42")
		l.answers("maxmemory 134217728", "", "CONFIG", "GET", "maxmemory")
		l.has("8091", "/", "hello from version 1, start 1\n")
		l.storeOfLogsHas("wrote report 1: Hall 3")
		told = l.measured(`up{job="node"} == 1`)
	})
	l.measure("1012")
	l.Programs(t, "2")
	l.Settings(t)
	back := l.Update(f.Dir)
	l.node.Stop()
	l.node.Start()
	l.node.Running()
	l.Step("other programs find what those before have kept", func(t *testing.T) {
		l.has("8090", "/", `"title": "Line 2", "version": "2"`)
		l.has("8090", "/series/pressure", "[1012.0, 1013.25]")
		l.has("8091", "/", "welcome from version 2, start 2\n")
		l.storeOfLogsHas("wrote report [0-9]+ by version 2: Hall 4")
		l.answers("42", "", "GET", "line-a:count")
		l.answers("maxmemory 100663296", "", "CONFIG", "GET", "maxmemory")
	})
	l.measure("1011")
	back()
	l.node.Stop()
	l.node.Start()
	l.node.Running()
	l.Step("the way back leads to the programs and settings before", func(t *testing.T) {
		l.has("8090", "/", `"title": "Line 1", "version": "1"`)
		l.has("8090", "/series/pressure", "[1011.0, 1012.0, 1013.25]")
		l.has("8091", "/", "hello from version 1, start 3\n")
		l.answers("42", "", "GET", "line-a:count")
		l.answers("maxmemory 134217728", "", "CONFIG", "GET", "maxmemory")
		require.Equal(t, told, l.measured(`up{job="node"} == 1`, "--until", told.UTC().Format(time.RFC3339)), "the store of metrics has what it had")
	})
	l.measure("1010")
	l.answers("OK", "line-a", "SET", "line-a:last", "acknowledged")
	// The script does not say when its reports are on the disk.
	require.NotEmpty(t, l.node.MustExec("ls", "/var/lib/report"))
	l.node.MustExec("sync", "--file-system", "/var/lib/report")
	l.Remove(t)
	l.Update(f.Dir)
	l.node.PowerLoss()
	l.node.Start()
	l.removed(l.node.Running())
}

// removed looks at what is left of roles that the configuration does not have any more. The others have what they had.
func (l *ownLab) removed(s vm.Status) {
	l.Step("roles that were removed have left what they kept, and nothing else", func(t *testing.T) {
		require.Equal(t, []string{"gateway", "logs-store", "metrics-store", "own-mqtt", "recorder", "valkey"}, s.Roles)
		for _, unit := range []string{"pulse.service", "pulse.target", "report.timer", "report.service"} {
			require.Equal(t, "inactive", l.shell("systemctl is-active "+unit+" || true"), unit)
		}
		const left = "/usr/bin/pulse /usr/bin/report /etc/systemd/system/pulse.service /etc/systemd/system/report.timer /run/pulse /run/report"
		require.Equal(t, "none", l.shell("ls -d "+left+" 2>/dev/null || echo none"))
		require.Equal(t, "none", l.shell("getent passwd pulse report || echo none"))
		require.Equal(t, "none", l.shell("ss -Htln sport = :8091 | grep . || echo none"))
		require.Equal(t, "1\n2\n1", l.shell("cat /var/lib/pulse/starts"))
		require.NotEmpty(t, l.shell("ls /var/lib/report"))
		require.Equal(t, "UNKNOWN 750", l.shell("stat -c '%U %a' /var/lib/pulse"), "a number that nobody has")
	})
	l.Step("and nobody asks for their health", func(t *testing.T) {
		l.says(`(?m)^.*own-roles +ok +gateway [^;]*; own-mqtt [^;]*; recorder [^;]*; valkey [^;]*$`, "health", "--all")
	})
	l.Step("the store of logs has what they have said", func(t *testing.T) {
		l.storeOfLogsHas("wrote report 1: Hall 3")
		l.storeOfLogsHas("wrote report [0-9]+ by version 2: Hall 4")
	})
	l.Step("the others have what was acknowledged", func(t *testing.T) {
		l.has("8090", "/", `"title": "Line 2", "version": "2"`)
		l.has("8090", "/series/pressure", "[1010.0, 1011.0, 1012.0, 1013.25]")
		l.answers("acknowledged", "", "GET", "line-a:last")
		l.answers("maxmemory 100663296", "", "CONFIG", "GET", "maxmemory")
	})
}

func (l *ownLab) shell(command string) string {
	l.t.Helper()
	return l.node.MustExec("sh", "-ec", command)
}

// within waits until a question is answered as it should be.
func (l *ownLab) within(what string, ask func() error) {
	l.t.Helper()
	var err error
	if !eventually(time.Minute, 200*time.Millisecond, func() bool { err = ask(); return err == nil }) {
		require.NoError(l.t, err, what)
	}
}

// has waits for a page with a text.
func (l *ownLab) has(port, path, text string) {
	l.t.Helper()
	l.within("a page with "+text, func() error {
		client := http.Client{Timeout: 10 * time.Second}
		r, err := client.Get("http://" + net.JoinHostPort(l.node.IP(), port) + path)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		page, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err == nil && !strings.Contains(string(page), text) {
			err = fmt.Errorf("it says %s:\n%s", r.Status, page)
		}
		return err
	})
}

// measure has the recorder keep a pressure.
func (l *ownLab) measure(value string) {
	l.t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	r, err := client.Post("http://"+net.JoinHostPort(l.node.IP(), "8090")+"/series/pressure", "text/plain", strings.NewReader(value))
	require.NoError(l.t, err)
	require.NoError(l.t, r.Body.Close())
	require.Equal(l.t, http.StatusOK, r.StatusCode)
}

// answers holds what Valkey answers to a command of a user; the default user has no name.
func (l *ownLab) answers(want, user string, words ...string) {
	l.t.Helper()
	id := map[string]string{"": "valkey-password", "line-a": "valkey-settings/valkey-line-a"}[user]
	require.Contains(l.t, l.Keys.Secrets, id)
	l.within("Valkey answers", func() error {
		c, err := client.DialValkey(net.JoinHostPort(l.node.IP(), "6379"), user, string(l.Keys.Secrets[id].Value))
		if err != nil {
			return err // It starts.
		}
		defer c.Close()
		got, err := c.Do(words...)
		require.NoError(l.t, err)
		require.Equal(l.t, want, strings.Join(got, " "))
		return nil
	})
}

// says waits until a command of the operator prints something.
func (l *ownLab) says(pattern, command string, args ...string) {
	l.t.Helper()
	l.within("spore "+command, func() error {
		out, errs, ok := l.quiet(l.t.Context(), command, append([]string{"--node", l.node.Facts.Name}, args...)...)
		if ok && regexp.MustCompile(pattern).MatchString(out) {
			return nil
		}
		return fmt.Errorf("it says:\n%s%s", out, errs)
	})
}

// storeOfLogsHas waits until the store of logs has a line of the role report.
func (l *ownLab) storeOfLogsHas(said string) {
	l.t.Helper()
	l.says(`(?m)^edge-01 .* report.*: `+said+`$`, "logs", "--since", "1d", "--grep", said)
}

// measured waits until the store of metrics has the answer to a query, and returns the time of the sample.
func (l *ownLab) measured(query string, more ...string) (at time.Time) {
	l.t.Helper()
	l.within(query, func() error {
		out, errs, ok := l.quiet(l.t.Context(), "metrics", append([]string{query, "--json"}, more...)...)
		if !ok {
			return errors.New(errs)
		}
		var answers []struct {
			Results [][]machine.Series `json:"results"`
		}
		if err := json.Unmarshal([]byte(out), &answers); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if len(answers) == 0 || len(answers[0].Results) == 0 || len(answers[0].Results[0]) == 0 {
			return errors.New("not yet")
		}
		at = time.Unix(int64(answers[0].Results[0][0].Samples[0].At), 0)
		return nil
	})
	return at
}
