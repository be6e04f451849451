//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	plan "spore/builder/rehearsal"
	"spore/builder/vm"
)

// ownPlant is examples/own-valkey with the roles of examples/own-programs, of examples/own-mqtt and of
// testdata/ownrole, and a store of metrics on a disk of its own, built, and its machine.
type ownPlant struct {
	appliance
	t       *testing.T
	configs string
	g       *guest
}

// memory is what spore boot gives the machine, in MiB: it has two stores.
func (p *ownPlant) memory() int {
	p.t.Helper()
	n, err := p.node("edge-01")
	require.NoError(p.t, err)
	return plan.Memory(&p.cluster, n)
}

// newOwnPlant has the device of the gateway, and reports that do not wait for an hour.
func newOwnPlant(t *testing.T) *ownPlant {
	t.Helper()
	p := &ownPlant{t: t, configs: filepath.Join(t.TempDir(), "own")}
	require.NoError(t, os.CopyFS(p.configs, os.DirFS(filepath.Join(sourceTree, "examples/own-valkey"))))
	others := []string{filepath.Join(sourceTree, "examples/own-programs"), filepath.Join(sourceTree, "examples/own-mqtt"), "testdata/ownrole"}
	for _, from := range others {
		for _, folder := range []string{"overlay", "programs", "roles", "services", "units"} {
			if at := filepath.Join(from, folder); dirExists(at) {
				require.NoError(t, os.CopyFS(p.file(folder), os.DirFS(at)))
			}
		}
	}
	replaceIn(t, p.file("cluster.yaml"), "[valkey, gateway]", "[valkey, gateway, own-mqtt, recorder, report, pulse]")
	p.givesTheStoreADisk()
	// It keeps its own logs, too.
	replaceIn(t, p.file("cluster.yaml"), "services: [", "services: [logs, ")
	replaceIn(t, p.file("cluster.yaml"), "roles: [", "roles: [logs-store, ")
	require.NoError(t, os.WriteFile(p.file("services/logs.yaml"), []byte("days: 7\nsize: 512MiB\nqueue: 64MiB\n"), 0o644))
	replaceIn(t, p.file("cluster.yaml"), "domain: plant.example\n", "domain: plant.example\n\ntrialSettle: 1\n")
	replaceIn(t, p.file("services/gateway.yaml"), "10.77.0.20:502", device(t))
	replaceIn(t, p.file("units/report.timer"), "OnActiveSec=1min\nOnUnitActiveSec=1h\n", "OnActiveSec=1s\nOnUnitInactiveSec=15s\nAccuracySec=1s\n")
	// It is given one when it has kept something.
	replaceIn(t, p.file("roles/recorder.yaml"), ", quota: 256MiB}", "}")
	p.writePrograms("1")
	built, err := buildPlant(p.configs, t.TempDir(), nil, "disk")
	require.NoError(t, err)
	p.appliance = appliance{built, built.bundle(t, "edge-01")}
	return p
}

// broker is what its clients know of the broker that is a role.
func (p *ownPlant) broker(t *testing.T) broker {
	t.Helper()
	passwords := map[string]string{}
	for _, user := range []string{"sensor", "operator"} {
		passwords[user] = string(p.keys.Secrets["own-mqtt-settings/own-mqtt-"+user].Value)
	}
	return broker{roots: p.authority(t, "own-mqtt"), foreign: p.authority(t, "agent"), passwords: passwords}
}

func dirExists(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func (p *ownPlant) file(name string) string { return filepath.Join(p.configs, name) }

func (p *ownPlant) on(g *guest) { p.g = g }

// writePrograms has the programs say that they are of a version. The examples have the first.
func (p *ownPlant) writePrograms(version string) {
	p.t.Helper()
	binary := p.file("programs/pulse")
	run(p.t, "env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+version, "-o", binary, "testdata/ownrole/pulse/main.go")
	p.pin("pulse", binary, version)
	if version == "1" {
		return
	}
	replaceIn(p.t, p.file("overlay/opt/recorder/__main__.py"), `VERSION = "1"`, fmt.Sprintf("VERSION = %q", version))
	script := p.file("programs/report.sh")
	replaceIn(p.t, script, "wrote report $number", "wrote report $number by version "+version)
	p.pin("report", script, version)
}

// pin writes the hash of a file and its version into its program.
func (p *ownPlant) pin(program, file, version string) {
	p.t.Helper()
	name := p.file("programs/" + program + ".yaml")
	text, err := os.ReadFile(name)
	require.NoError(p.t, err)
	text = regexp.MustCompile(`sha256: \S+`).ReplaceAll(text, []byte("sha256: "+hashFile(p.t, file)))
	text = regexp.MustCompile(`(?m)^version: .*$`).ReplaceAll(text, fmt.Appendf(nil, "version: %q", version))
	require.NoError(p.t, os.WriteFile(name, text, 0o644))
}

// remove takes a role out of the folder: its files, and its name in cluster.yaml.
func (p *ownPlant) remove(role string, files ...string) {
	p.t.Helper()
	replaceIn(p.t, p.file("cluster.yaml"), ", "+role, "")
	for _, name := range append(files, "roles/"+role+".yaml", "roles/"+role, "services/"+role+".yaml") {
		require.NoError(p.t, os.RemoveAll(p.file(name)))
	}
}

// build builds the folder as it is now, and returns the image.
func (p *ownPlant) build() string {
	p.t.Helper()
	dir := p.t.TempDir()
	require.NoError(p.t, spore("build", p.configs, "-o", dir, "--pki", p.dir, "--format", "disk"))
	return filepath.Join(dir, "spore.img")
}

// spore runs a command that asks the machine.
func (p *ownPlant) spore(args ...string) (string, error) {
	p.t.Helper()
	api, err := p.g.Address("tcp", edgeIP+":8643")
	require.NoError(p.t, err)
	out, err := exec.Command(flashTool(p.t), append(args, "--pki", p.dir, "--address", "edge-01="+api)...).CombinedOutput()
	return string(out), err
}

func (p *ownPlant) push(image string, more ...string) (string, error) {
	p.t.Helper()
	start := time.Now()
	out, err := p.spore(append([]string{"push", p.configs, "--image", image, "--node", "edge-01"}, more...)...)
	p.t.Logf("push %s took %.0f s:\n%s", strings.Join(more, " "), time.Since(start).Seconds(), out)
	return out, err
}

// says waits until a command ends well and prints something.
func (p *ownPlant) says(what, pattern, command string, args ...string) {
	p.t.Helper()
	p.g.within(what, func() error {
		out, err := p.spore(append([]string{command, p.configs, "--node", "edge-01"}, args...)...)
		if err == nil && !regexp.MustCompile(pattern).MatchString(out) {
			err = errors.New("not yet")
		}
		if err != nil {
			err = fmt.Errorf("%w: spore %s says:\n%s", err, command, out)
		}
		return err
	})
}

// logs waits for a line in the journal of a role.
func (p *ownPlant) logs(role, pattern string) {
	p.t.Helper()
	p.g.within(role+" has written "+pattern, func() error {
		out, err := p.spore("logs", p.configs, "edge-01", role)
		if err == nil && !regexp.MustCompile(pattern+`\n`).MatchString(out) {
			err = errors.New("not yet")
		}
		if err != nil {
			err = fmt.Errorf("%w: spore logs says:\n%s", err, out)
		}
		return err
	})
}

// saves is how often a broker has begun to save what it has.
func (p *ownPlant) saves(role string) int {
	p.t.Helper()
	out, err := p.spore("logs", p.configs, "edge-01", role, "--lines", "10000")
	require.NoError(p.t, err)
	return strings.Count(out, "Saving in-memory database to ")
}

// page waits for a page with a text.
func (p *ownPlant) page(port, path, text string) {
	p.t.Helper()
	p.g.requirePage(port, path, text)
}

// measure has the recorder keep a value.
func (p *ownPlant) measure(series, value string) {
	p.t.Helper()
	require.NoError(p.t, p.tryMeasure(series, value))
}

// tryMeasure is measure, and says what went wrong.
func (p *ownPlant) tryMeasure(series, value string) error {
	p.t.Helper()
	address, err := p.g.Address("tcp", edgeIP+":8090")
	require.NoError(p.t, err)
	client := http.Client{Timeout: requestLimit}
	r, err := client.Post("http://"+address+"/series/"+series, "text/plain", strings.NewReader(value))
	if err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		err = errors.New(r.Status)
	}
	return errors.Join(err, r.Body.Close())
}

// runs waits for a root that is on no trial.
func (p *ownPlant) runs(what string, is func(hash string) bool) {
	p.t.Helper()
	p.g.await(what+" on no trial", func(s vm.Status) bool {
		c := systemOf(p.t, s).Configuration
		return is(c.RootHash) && !c.Trial && s.System == "running"
	})
}
