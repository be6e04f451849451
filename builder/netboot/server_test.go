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
	"spore/builder/netboot/approval"
	"spore/builder/netboot/approvals"
	"spore/builder/netboot/control"
	"spore/builder/netboot/dhcp"
	"spore/builder/netboot/roster"
	"spore/cluster"
	"spore/pki"
	"spore/pki/attest"
	"spore/pki/bundle"
	"spore/pki/enroll"
	"spore/pki/seal"
)

// plant is a configuration with keys, and its folder of network boot.
type plant struct {
	from string
	out  string
	tree *pki.Tree
	t    *testing.T
	mu   sync.Mutex
	said []string
}

func newPlant(t *testing.T) *plant { return newPlantOf(t, "../../examples/edge") }

func newPlantOf(t *testing.T, from string) *plant {
	t.Helper()
	config, report := cluster.LoadDir(from)
	require.NoError(t, report.Err())
	shared, nodes := cluster.Facts(config)
	p := &plant{from: from, out: t.TempDir(), tree: pki.New(&shared), t: t}
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

func (p *plant) bundle(_ *roster.Nodes, node string) ([]byte, error) {
	config, report := cluster.LoadDir(p.from)
	require.NoError(p.t, report.Err())
	shared, nodes := cluster.Facts(config)
	for i := range nodes {
		if nodes[i].Name == node {
			return p.tree.BundleFor(&shared, &nodes[i], time.Now())
		}
	}
	return nil, fmt.Errorf("no node %s", node)
}

// approve approves a machine as the operator does.
func (p *plant) approve(fingerprint string, change func(o *approval.Options)) error {
	o := approval.Options{Out: p.out, Netboot: "netboot", Bundle: p.bundle, Patience: 300 * time.Millisecond, Say: func(string, ...any) {}}
	if change != nil {
		change(&o)
	}
	_, err := approval.Approve(p.t.Context(), fingerprint, o)
	return err
}

// machine is one that asks for a bundle.
type machine struct {
	t     *testing.T
	key   *age.X25519Identity
	claim enroll.Claim
}

func newMachine(t *testing.T, cluster, node string) *machine {
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	return &machine{t, key, enroll.NewClaim(enroll.Claim{Cluster: cluster, Node: node, Key: key.Recipient().String(), MACs: []string{"52:54:00:77:00:0b"}})}
}

// ask posts the claim.
func (m *machine) ask(s *netboot.Server) (int, []byte) {
	m.t.Helper()
	data, err := json.Marshal(m.claim)
	require.NoError(m.t, err)
	r, err := http.Post(s.Base()+"enroll", "application/json", bytes.NewReader(data))
	require.NoError(m.t, err)
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	require.NoError(m.t, err)
	return r.StatusCode, answer
}

func (p *plant) awaitControl() {
	p.t.Helper()
	require.Eventually(p.t, func() bool { _, err := control.State(p.t.Context(), p.out); return err == nil }, 5*time.Second, time.Millisecond)
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
	m := newMachine(t, s.Nodes().Cluster.ID, "edge-01")
	code, _ := m.ask(s)
	require.Equal(t, http.StatusAccepted, code)
	fingerprint := m.claim.Fingerprint()
	p.hears("shows the fingerprint " + fingerprint)
	p.hears("It shows no TPM.")
	p.awaitControl()

	require.ErrorIs(t, p.approve("0000-0000-0000-0000-0000", nil), enroll.ErrNoRequest)
	of := func(node string, change func([]byte)) func(o *approval.Options) {
		return func(o *approval.Options) {
			o.Bundle = func(nodes *roster.Nodes, _ string) ([]byte, error) {
				data, err := p.bundle(nodes, node)
				change(data)
				return data, err
			}
		}
	}
	require.ErrorContains(t, p.approve(fingerprint, of("mqtt-01", func([]byte) {})), "it is for node", "another node's bundle is not handed out")
	require.ErrorContains(t, p.approve(fingerprint, of("edge-01", func(b []byte) { b[len(b)-5] ^= 1 })), "not signed by this cluster")
	require.ErrorContains(t, control.Approve(t.Context(), p.out, enroll.Approval{Claim: m.claim}), "comes with a bundle")
	code, _ = m.ask(s)
	require.Equal(t, http.StatusAccepted, code, "none of these was an approval")
	kept, err := approvals.Load(p.out)
	require.NoError(t, err)
	require.Empty(t, kept)

	require.NoError(t, p.approve(" "+strings.ToUpper(fingerprint)+"\n", nil), "as people type it")
	code, sealed := m.ask(s)
	require.Equal(t, http.StatusOK, code)
	require.NotContains(t, string(sealed), "spore-bundle")
	opened, err := seal.OpenIdentities(sealed, []byte(m.key.String()), bundle.MaxSize)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(opened, []byte("spore-bundle 1 ")))

	_, err = approval.Deny(t.Context(), p.out, fingerprint)
	require.NoError(t, err)
	code, _ = m.ask(s)
	require.Equal(t, http.StatusForbidden, code)
	kept, err = approvals.Load(p.out)
	require.NoError(t, err)
	require.Empty(t, kept, "a refusal outlives the server, too")
}

func TestAnApprovalOutlivesTheServer(t *testing.T) {
	p := newPlant(t)
	ctx, cancel := context.WithCancel(t.Context())
	s, err := netboot.Open(ctx, p.options())
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() { require.NoError(t, s.Serve(ctx)) })
	all.Go(func() { require.NoError(t, control.Serve(ctx, p.out, s)) })
	m := newMachine(t, s.Nodes().Cluster.ID, "edge-01")
	m.ask(s)
	p.awaitControl()
	require.NoError(t, p.approve(m.claim.Fingerprint(), nil))
	cancel()
	all.Wait()

	o := p.options()
	o.Approved, err = approvals.Load(p.out)
	require.NoError(t, err)
	require.Len(t, o.Approved, 1)
	foreign := o.Approved[0]
	foreign.Claim.Cluster = "another"
	o.Approved = append(o.Approved, foreign)
	next := p.serve(o)
	p.hears("an approval that was kept is left out: ")
	code, sealed := m.ask(next)
	require.Equal(t, http.StatusOK, code, "the operator is not asked again")
	_, err = seal.OpenIdentities(sealed, []byte(m.key.String()), bundle.MaxSize)
	require.NoError(t, err)
	code, _ = newMachine(t, next.Nodes().Cluster.ID, "edge-01").ask(next)
	require.Equal(t, http.StatusAccepted, code, "another key wants an approval of its own")
}

func TestANodeIsGivenToASecondMachineOnlyInPlaceOfTheFirst(t *testing.T) {
	p := newPlant(t)
	s := p.serve(p.options())
	p.awaitControl()
	first := newMachine(t, s.Nodes().Cluster.ID, "edge-01")
	first.ask(s)
	require.NoError(t, p.approve(first.claim.Fingerprint(), nil))

	again := newMachine(t, s.Nodes().Cluster.ID, "edge-01")
	again.ask(s)
	p.hears("It says that it is the machine that edge-01 has been given to (fingerprint " + first.claim.Fingerprint() + ", approved ")
	require.NoError(t, p.approve(again.claim.Fingerprint(), nil), "the same machine, which has lost its key, needs no more than an approval")

	second := newMachine(t, s.Nodes().Cluster.ID, "edge-01")
	second.claim.MACs = []string{"52:54:00:99:00:01"}
	_, answer := second.ask(s)
	pending, err := enroll.ParsePending(answer)
	require.NoError(t, err)
	require.Equal(t, enroll.Given, pending.State)
	require.Equal(t, again.claim.Fingerprint(), pending.Holder)
	require.WithinDuration(t, time.Now(), pending.Since, time.Minute)
	fingerprint := second.claim.Fingerprint()
	p.hears("approve " + fingerprint + " --replace")
	p.hears("edge-01 has been given to another machine (fingerprint " + again.claim.Fingerprint() + ", approved ")

	made := false
	counted := func(o *approval.Options) {
		o.Bundle = func(nodes *roster.Nodes, node string) ([]byte, error) { made = true; return p.bundle(nodes, node) }
	}
	refused := func() {
		t.Helper()
		require.ErrorContains(t, p.approve(fingerprint, counted), fingerprint+" is not approved: edge-01 has been given to another machine (fingerprint "+again.claim.Fingerprint())
		require.False(t, made, "no bundle is made and recorded for it")
		code, _ := again.ask(s)
		require.Equal(t, http.StatusOK, code, "the first one keeps its approval")
	}
	refused()
	require.NoError(t, os.WriteFile(filepath.Join(p.out, approvals.Name, "aaaa.json"), []byte("x"), 0o600))
	refused()
	other := newMachine(t, s.Nodes().Cluster.ID, "mqtt-01")
	other.ask(s)
	require.ErrorContains(t, p.approve(other.claim.Fingerprint(), counted), "it is not known whether mqtt-01 has been given to another machine: the approval aaaa.json is left out")
	require.NoError(t, os.Remove(filepath.Join(p.out, approvals.Name, "aaaa.json")))

	require.NoError(t, p.approve(fingerprint, func(o *approval.Options) { o.Replace = true }))
	code, _ := second.ask(s)
	require.Equal(t, http.StatusOK, code)
	_, answer = first.ask(s)
	pending, err = enroll.ParsePending(answer)
	require.NoError(t, err)
	require.Equal(t, enroll.Given, pending.State, "the first machine is told who has taken its place")
	require.Equal(t, fingerprint, pending.Holder)
	kept, err := approvals.Load(p.out)
	require.NoError(t, err)
	require.Len(t, kept, 1)

	_, err = approval.Deny(t.Context(), p.out, fingerprint)
	require.NoError(t, err)
	require.NoError(t, p.approve(first.claim.Fingerprint(), nil), "a node that was taken back is free")
}

func TestOfTwoApprovalsAtOnceOneIsTaken(t *testing.T) {
	p := newPlant(t)
	s := p.serve(p.options())
	p.awaitControl()
	var made, all sync.WaitGroup
	made.Add(2)
	errs := make(chan error, 2)
	for i := range 2 {
		m := newMachine(t, s.Nodes().Cluster.ID, "edge-01")
		m.claim.MACs = []string{fmt.Sprintf("52:54:00:99:00:0%d", i)}
		m.ask(s)
		all.Go(func() {
			errs <- p.approve(m.claim.Fingerprint(), func(o *approval.Options) {
				o.Bundle = func(nodes *roster.Nodes, node string) ([]byte, error) {
					made.Done()
					made.Wait() // Both have seen that the node is free.
					p.mu.Lock()
					defer p.mu.Unlock()
					return p.bundle(nodes, node)
				}
			})
		})
	}
	all.Wait()
	first, second := <-errs, <-errs
	if first != nil {
		first, second = second, first
	}
	require.NoError(t, first)
	require.ErrorContains(t, second, "edge-01 has been given to another machine")
	kept, err := approvals.Load(p.out)
	require.NoError(t, err)
	require.Len(t, kept, 1)
}

func TestWhatIsRefusedWhileItIsBeingApprovedGetsNothing(t *testing.T) {
	p := newPlant(t)
	s := p.serve(p.options())
	p.awaitControl()
	m := newMachine(t, s.Nodes().Cluster.ID, "edge-01")
	m.ask(s)
	err := p.approve(m.claim.Fingerprint(), func(o *approval.Options) {
		o.Bundle = func(nodes *roster.Nodes, node string) ([]byte, error) {
			r, err := approval.Deny(t.Context(), p.out, m.claim.Fingerprint())
			require.NoError(t, err)
			require.False(t, r.Delivered)
			return p.bundle(nodes, node)
		}
	})
	require.ErrorContains(t, err, "it was refused meanwhile")
	code, _ := m.ask(s)
	require.Equal(t, http.StatusForbidden, code)
	kept, err := approvals.Load(p.out)
	require.NoError(t, err)
	require.Empty(t, kept)

	require.NoError(t, p.approve(m.claim.Fingerprint(), nil), "after all")
	code, _ = m.ask(s)
	require.Equal(t, http.StatusOK, code)
	r, err := approval.Deny(t.Context(), p.out, m.claim.Fingerprint())
	require.NoError(t, err)
	require.True(t, r.Delivered, "the operator is told that it has the bundle")
}

// Whom a node was given to is in the records of the output folder, and outlives the server.
func TestWhoHasANodeOutlivesTheServer(t *testing.T) {
	p := newPlant(t)
	s := p.serve(p.options())
	p.awaitControl()
	first := newMachine(t, s.Nodes().Cluster.ID, "edge-01")
	first.ask(s)
	require.NoError(t, p.approve(first.claim.Fingerprint(), nil))

	next := newPlant(t)
	next.tree = p.tree
	require.NoError(t, os.CopyFS(filepath.Join(next.out, approvals.Name), os.DirFS(filepath.Join(p.out, approvals.Name))))
	o := next.options()
	var err error
	o.Approved, err = approvals.Load(next.out)
	require.NoError(t, err)
	s = next.serve(o)
	next.awaitControl()
	second := newMachine(t, s.Nodes().Cluster.ID, "edge-01")
	second.claim.MACs = []string{"52:54:00:99:00:01"}
	_, answer := second.ask(s)
	pending, err := enroll.ParsePending(answer)
	require.NoError(t, err)
	require.Equal(t, enroll.Given, pending.State)
	require.Equal(t, o.Approved[0].At, pending.Since)
	require.False(t, pending.Since.IsZero())
	require.ErrorContains(t, next.approve(second.claim.Fingerprint(), nil), "give --replace")
}

// What is refused here is what somebody gets who answers PXE before this server: a system of his own shows any
// fingerprint.
func TestKeysOfAuthoritiesAreNotGivenToAMachineThatProvesNothing(t *testing.T) {
	p := newPlantOf(t, "../../configs")
	s := p.serve(p.options())
	p.awaitControl()
	var master string
	for _, n := range s.Nodes().All {
		share, err := pki.ShareOf(&s.Nodes().Cluster, n)
		require.NoError(t, err)
		if len(share.Issues) > 0 {
			master = n.Name
		}
	}
	require.NotEmpty(t, master)
	m := newMachine(t, s.Nodes().Cluster.ID, master)
	m.ask(s)
	fingerprint := m.claim.Fingerprint()
	refused := func(want string, change func(o *approval.Options)) {
		t.Helper()
		require.ErrorContains(t, p.approve(fingerprint, change), want)
		code, _ := m.ask(s)
		require.Equal(t, http.StatusAccepted, code)
	}
	refused("the bundle of "+master+" has keys of authorities (", nil)
	refused("It shows no TPM. Bring the bundle on a medium", nil)
	tpm := strings.Repeat("aaaa-", 7) + "aaaa"
	refused("it shows no TPM, and a proof by a TPM is required", func(o *approval.Options) { o.TPM = tpm })
	refused("leave one of them out", func(o *approval.Options) { o.TPM, o.TrustNetwork = tpm, true })
	require.NoError(t, p.approve(fingerprint, func(o *approval.Options) { o.TrustNetwork = true }))
	code, _ := m.ask(s)
	require.Equal(t, http.StatusOK, code)

	m = newMachine(t, s.Nodes().Cluster.ID, master)
	m.claim.TPM = &attest.Keys{EK: []byte("ek"), AK: []byte("ak")}
	m.ask(s)
	fingerprint = m.claim.Fingerprint()
	refused("It shows a TPM with the fingerprint "+attest.Fingerprint([]byte("ek"))+". When you know this to be the machine's own, give --tpm", nil)
	refused("its TPM has the fingerprint "+attest.Fingerprint([]byte("ek"))+", and --tpm is", func(o *approval.Options) { o.TPM = tpm })
	makers := filepath.Join(t.TempDir(), "makers.pem")
	refused("no such file", func(o *approval.Options) { o.Makers = makers })
	require.NoError(t, os.WriteFile(makers, []byte("x"), 0o600))
	refused("it holds no root certificate", func(o *approval.Options) { o.Makers = makers })

	worker := newMachine(t, s.Nodes().Cluster.ID, "")
	for _, n := range s.Nodes().All {
		share, err := pki.ShareOf(&s.Nodes().Cluster, n)
		require.NoError(t, err)
		if len(share.Issues) == 0 {
			worker.claim.Node = n.Name
		}
	}
	worker.ask(s)
	require.NoError(t, p.approve(worker.claim.Fingerprint(), nil), "a node that issues nothing needs no proof")
}

// The server is on the network. When it was taken over, it may show the operator the fingerprint that he has compared,
// beside a key of its own.
func TestAServerThatExchangesTheKeyIsSeen(t *testing.T) {
	m := newMachine(t, "c", "")
	state := netboot.State{Requests: []enroll.Request{{Fingerprint: "aaaa-bbbb-cccc-dddd-eeee", Claim: m.claim}}}
	_, err := approval.Find(state, "aaaa-bbbb-cccc-dddd-eeee")
	require.ErrorContains(t, err, "the server shows the fingerprint aaaa-bbbb-cccc-dddd-eeee for a machine that has "+m.claim.Fingerprint())
	state.Requests[0].Fingerprint = m.claim.Fingerprint()
	_, err = approval.Find(state, " "+strings.ToUpper(m.claim.Fingerprint()))
	require.NoError(t, err)
	_, err = approval.Find(state, "ffff")
	require.ErrorIs(t, err, enroll.ErrNoRequest)
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
	require.ErrorContains(t, err, `install: the image has no node "edge-99"`)
}

func TestANodeIsToldToAskForItsAnswerFile(t *testing.T) {
	p := newPlant(t)
	o := p.options()
	const who = "?mac=52-54-00-77-00-0b"
	o.Install, o.Answers = map[string]string{"edge-01": "wwn:0x5000c500a1b2c3d4"}, map[string]string{"edge-01": "node: edge-01\n"}
	s := p.serve(o)
	require.Contains(t, get(t, s.Base()+"node.ipxe"+who), "spore.answers=yes")
	require.NotContains(t, get(t, s.Base()+"node.ipxe"+who), "spore.install")
	require.Equal(t, "node: edge-01\n", get(t, s.Base()+"answers"+who))
	r, err := http.Post(s.Base()+"installed"+who+"&disk=wwn%3A0x5000c500a1b2c3d4", "", nil)
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	require.Equal(t, http.StatusNoContent, r.StatusCode)
	require.Contains(t, get(t, s.Base()+"node.ipxe"+who), "starts from its disk")
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
