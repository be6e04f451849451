//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	plan "spore/builder/rehearsal"
	"spore/builder/vm"
	"spore/test/ownplant"
)

// ownPlant is the plant with roles of its own (package ownplant), whose store of metrics has a disk of its own, built,
// and its machine.
type ownPlant struct {
	*ownplant.Folder
	appliance
	t *testing.T
	g *guest
}

// memory is what spore boot gives the machine, in MiB: it has two stores.
func (p *ownPlant) memory() int {
	p.t.Helper()
	n, err := p.node("edge-01")
	require.NoError(p.t, err)
	return plan.Memory(&p.cluster, n)
}

// newOwnPlant builds it. The device of the gateway is on the host's loopback, which machines reach at the address of
// their gateway.
func newOwnPlant(t *testing.T) *ownPlant {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ownplant.Device(t, l)
	p := &ownPlant{t: t, Folder: ownplant.New(t, sourceTree, fmt.Sprintf("10.77.0.2:%d", l.Addr().(*net.TCPAddr).Port))}
	p.givesTheStoreADisk()
	built, err := buildPlant(p.Dir, t.TempDir(), nil, "disk")
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

func (p *ownPlant) on(g *guest) { p.g = g }

// build builds the folder as it is now, and returns the image.
func (p *ownPlant) build() string {
	p.t.Helper()
	dir := p.t.TempDir()
	require.NoError(p.t, spore("build", p.Dir, "-o", dir, "--pki", p.dir, "--format", "disk"))
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
	out, err := p.spore(append([]string{"push", p.Dir, "--image", image, "--node", "edge-01"}, more...)...)
	p.t.Logf("push %s took %.0f s:\n%s", strings.Join(more, " "), time.Since(start).Seconds(), out)
	return out, err
}

// says waits until a command ends well and prints something.
func (p *ownPlant) says(what, pattern, command string, args ...string) {
	p.t.Helper()
	p.g.within(what, func() error {
		out, err := p.spore(append([]string{command, p.Dir, "--node", "edge-01"}, args...)...)
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
		out, err := p.spore("logs", p.Dir, "edge-01", role)
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
	out, err := p.spore("logs", p.Dir, "edge-01", role, "--lines", "10000")
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

// runs waits for a root that is on no trial, from the start of the machine on.
func (p *ownPlant) runs(what string, is func(hash string) bool) {
	p.t.Helper()
	p.g.mark = 0 // The shell may have read past the status line.
	p.g.await(what+" on no trial", func(s vm.Status) bool {
		c := systemOf(p.t, s).Configuration
		return is(c.RootHash) && !c.Trial && s.System == "running"
	})
}
