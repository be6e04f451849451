package netboot_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"spore/builder/clusterpart"
	"spore/builder/netboot"
	"spore/builder/netboot/control"
	"spore/builder/netboot/dhcp"
	"spore/cluster"
	"spore/pki"
	"spore/pki/bundle"
	"spore/pki/enroll"
	"spore/pki/seal"
)

// plant is examples/edge with keys, and its folder of network boot.
type plant struct {
	out  string
	tree *pki.Tree
	t    *testing.T
	mu   sync.Mutex
	said []string
}

func newPlant(t *testing.T) *plant {
	t.Helper()
	config, report := cluster.LoadDir("../../examples/edge")
	require.NoError(t, report.Err())
	shared, nodes := cluster.Facts(config)
	p := &plant{out: t.TempDir(), tree: pki.New(&shared), t: t}
	_, err := p.tree.Update(&shared, nodes, pki.Options{
		Now: time.Now(), Random: rand.Reader, Given: map[string]pki.Hidden{"mqtt-password-sensor": "sensor-password", "mqtt-password-operator": "operator-password"},
	})
	require.NoError(t, err)
	public := p.tree.Public()
	keys, err := public.SigningKeys()
	require.NoError(t, err)
	config.Public = cluster.Public{Files: public.Files(), SigningKeys: []string{base64.StdEncoding.EncodeToString(keys[0])}}
	p.write(config)
	return p
}

// write makes the folder anew, as a build does.
func (p *plant) write(config *cluster.Config) {
	dir := filepath.Join(p.out, "netboot")
	fresh := dir + ".new"
	require.NoError(p.t, os.MkdirAll(filepath.Join(fresh, "ipxe"), 0o755))
	f, err := os.Create(filepath.Join(fresh, "cluster.squashfs"))
	require.NoError(p.t, err)
	_, err = clusterpart.Write(f, config, 1_700_000_000)
	require.NoError(p.t, err)
	require.NoError(p.t, f.Close())
	for name, data := range map[string]string{"cmdline": "roothash=aa ro", "ipxe/undionly.kpxe": "pxe", "ipxe/snponly.efi": "efi"} {
		require.NoError(p.t, os.WriteFile(filepath.Join(fresh, name), []byte(data), 0o644))
	}
	require.NoError(p.t, os.RemoveAll(dir))
	require.NoError(p.t, os.Rename(fresh, dir))
}

func (p *plant) options() netboot.Options {
	return netboot.Options{
		Dir: filepath.Join(p.out, "netboot"), Card: netboot.Card{Name: "lo", Prefix: netip.MustParsePrefix("127.0.0.1/8")}, Now: time.Now,
		Say: func(format string, args ...any) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.said = append(p.said, fmt.Sprintf(format, args...))
		},
	}
}

func (p *plant) hears(text string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return strings.Contains(strings.Join(p.said, "\n"), text)
	}, 10*time.Second, 5*time.Millisecond, "%q was not said: %q", text, &p.said)
}

// serve runs a server, and its control socket, until the test ends.
func (p *plant) serve(o netboot.Options) *netboot.Server {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := netboot.Open(ctx, o)
	require.NoError(p.t, err)
	var all sync.WaitGroup
	all.Go(func() { require.NoError(p.t, s.Serve(ctx)) })
	all.Go(func() { require.NoError(p.t, control.Serve(ctx, p.out, s)) })
	p.t.Cleanup(func() { cancel(); all.Wait() })
	return s
}

func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	require.NoError(t, err)
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(data)
}

func (p *plant) bundle(node string) []byte {
	config, report := cluster.LoadDir("../../examples/edge")
	require.NoError(p.t, report.Err())
	shared, nodes := cluster.Facts(config)
	for i := range nodes {
		if nodes[i].Name == node {
			data, err := p.tree.BundleFor(&shared, &nodes[i], time.Now())
			require.NoError(p.t, err)
			return data
		}
	}
	p.t.Fatal("no node ", node)
	return nil
}

func TestUnknownMachinesAreListedForTheOperator(t *testing.T) {
	p := newPlant(t)
	s := p.serve(p.options())
	require.Contains(t, get(t, s.Base()+"node.ipxe?mac=52-54-00-77-00-0b&ip=127.0.0.1"), "this machine is edge-01")
	p.hears("edge-01 (127.0.0.1): boots (by its mac 52:54:00:77:00:0b)")
	require.Contains(t, get(t, s.Base()+"node.ipxe?mac=52-54-00-99-00-01&serial=SN-0815"), "UNKNOWN MACHINE")
	p.hears("UNKNOWN MACHINE: MACs 52:54:00:99:00:01, serial SN-0815")

	require.Eventually(t, func() bool { _, err := control.State(t.Context(), p.out); return err == nil }, 5*time.Second, time.Millisecond)
	state, err := control.State(t.Context(), p.out)
	require.NoError(t, err)
	require.Equal(t, "plant", state.Cluster)
	require.Len(t, state.Machines, 2)
	require.Equal(t, "edge-01", state.Machines[0].Node)
	require.Contains(t, state.Machines[1].Advice(), "52:54:00:99:00:01")
}

func TestAnApprovedMachineGetsItsBundleSealedToItsKey(t *testing.T) {
	p := newPlant(t)
	s := p.serve(p.options())
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	claim := enroll.NewClaim(enroll.Claim{Cluster: s.Nodes().Cluster.ID, Node: "edge-01", Key: key.Recipient().String(), MACs: []string{"52:54:00:77:00:0b"}})
	post := func() (int, []byte) {
		data, err := json.Marshal(claim)
		require.NoError(t, err)
		r, err := http.Post(s.Base()+"enroll", "application/json", bytes.NewReader(data))
		require.NoError(t, err)
		defer r.Body.Close()
		answer, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		return r.StatusCode, answer
	}
	code, _ := post()
	require.Equal(t, http.StatusAccepted, code)
	p.hears("shows the fingerprint " + claim.Fingerprint())

	ctx := t.Context()
	require.Eventually(t, func() bool { _, err := control.State(ctx, p.out); return err == nil }, 5*time.Second, time.Millisecond)
	require.ErrorIs(t, s.Approve(ctx, "0000-0000-0000-0000-0000", nil), enroll.ErrNoRequest)
	require.ErrorContains(t, control.Approve(ctx, p.out, claim.Fingerprint(), p.bundle("mqtt-01")), "it is for node", "another node's bundle is not handed out")
	forged := p.bundle("edge-01")
	forged[len(forged)-5] ^= 1
	require.ErrorContains(t, control.Approve(ctx, p.out, claim.Fingerprint(), forged), "not signed by this cluster")
	require.ErrorContains(t, control.Approve(ctx, p.out, claim.Fingerprint(), nil), "comes with a bundle")
	code, _ = post()
	require.Equal(t, http.StatusAccepted, code, "none of these was an approval")

	want := p.bundle("edge-01")
	require.NoError(t, control.Approve(ctx, p.out, claim.Fingerprint(), want))
	code, sealed := post()
	require.Equal(t, http.StatusOK, code)
	require.NotContains(t, string(sealed), "spore-bundle")
	opened, err := seal.OpenIdentities(sealed, []byte(key.String()), bundle.MaxSize)
	require.NoError(t, err)
	require.Equal(t, want, opened)

	require.NoError(t, control.Deny(ctx, p.out, claim.Fingerprint()))
	code, _ = post()
	require.Equal(t, http.StatusForbidden, code)
}

func TestTheFolderOfAnotherBuildIsTaken(t *testing.T) {
	p := newPlant(t)
	s := p.serve(p.options())
	require.Contains(t, get(t, s.Base()+"node.ipxe?mac=52-54-00-99-00-01"), "UNKNOWN MACHINE")
	config, report := cluster.LoadDir("../../examples/edge")
	require.NoError(t, report.Err())
	config.Cluster.Nodes[1].MACs = []string{"52:54:00:99:00:01"}
	p.write(config)
	p.hears("another build of the image is there")
	require.Contains(t, get(t, s.Base()+"node.ipxe?mac=52-54-00-99-00-01"), "this machine is "+config.Cluster.Nodes[1].Name)
}

func TestANodeIsToldToInstallItselfUntilItHas(t *testing.T) {
	p := newPlant(t)
	o := p.options()
	o.Install = map[string]string{"edge-01": "DISK0001"}
	s := p.serve(o)
	const who = "?mac=52-54-00-77-00-0b"
	said := func(query string) int {
		r, err := http.Post(s.Base()+"installed"+query, "", nil)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		return r.StatusCode
	}
	require.Contains(t, get(t, s.Base()+"node.ipxe"+who), "spore.install=DISK0001")
	require.Equal(t, http.StatusNotFound, said(who+"&disk=DISK0002"))
	require.Equal(t, http.StatusNotFound, said("?mac=52-54-00-99-00-01&disk=DISK0001"))
	require.Contains(t, get(t, s.Base()+"node.ipxe"+who), "spore.install=DISK0001", "nothing is known of its disk yet")
	require.Equal(t, http.StatusNoContent, said(who+"&disk=DISK0001"))
	p.hears("edge-01: has the system on its disk DISK0001")
	require.Contains(t, get(t, s.Base()+"node.ipxe"+who), "starts from its disk")

	o.Install = map[string]string{"edge-99": "DISK0001"}
	_, err := netboot.Open(t.Context(), o)
	require.ErrorContains(t, err, `install: no node "edge-99"`)
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	p := newPlant(t)
	o := p.options()
	o.Dir = t.TempDir()
	_, err := netboot.Open(t.Context(), o)
	require.ErrorContains(t, err, "spore build --format netboot")

	first := p.serve(p.options())
	at, err := netip.ParseAddrPort(strings.Trim(strings.TrimPrefix(first.Base(), "http://"), "/"))
	require.NoError(t, err)
	o = p.options()
	o.HTTPPort = int(at.Port())
	_, err = netboot.Open(t.Context(), o)
	require.ErrorContains(t, err, "another program has the port")

	o = p.options()
	o.DHCP = dhcp.Full
	o.TFTPPort = -1
	_, err = netboot.Open(t.Context(), o)
	require.ErrorContains(t, err, "lo has the address 127.0.0.1/8, and the nodes' network is [10.77.0.0/24]")

	require.Eventually(t, func() bool { _, err := control.State(t.Context(), p.out); return err == nil }, 5*time.Second, time.Millisecond)
	require.ErrorContains(t, control.Serve(t.Context(), p.out, first), "another `spore serve` is running")
	_, err = control.State(t.Context(), t.TempDir())
	require.ErrorIs(t, err, control.ErrNone)
}
