//go:build integration

// Package enrol has a machine with an emulated TPM ask the server of network boot for its secrets: both halves of the
// proof of what was started, and an operator in between.
package enrol

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
	"github.com/google/go-tpm/tpm2/transport/linuxudstpm"
	"github.com/stretchr/testify/require"

	"spore/agent/enrolment"
	"spore/agent/quote"
	"spore/agent/wait"
	"spore/builder/clusterpart"
	"spore/builder/netboot"
	"spore/builder/netboot/approval"
	"spore/builder/netboot/approvals"
	"spore/builder/netboot/control"
	"spore/builder/netboot/roster"
	"spore/builder/uki"
	"spore/builder/uki/ukitest"
	"spore/cluster"
	"spore/pki"
	"spore/pki/attest"
	"spore/pki/authenticode"
	"spore/pki/enroll"
)

const cmdline = "roothash=aa ro"

// site is a folder for network boot of the shipped configuration, with keys, and a server for it.
type site struct {
	t      *testing.T
	out    string
	tree   *pki.Tree
	config *cluster.Config
	server *netboot.Server
	uki    []byte
	kernel []byte
	ipxe   []byte
	// master is a node whose bundle has keys of authorities.
	master string
}

func newSite(t *testing.T) *site {
	config, report := cluster.LoadDir("../../configs")
	require.NoError(t, report.Err())
	shared, nodes := cluster.Facts(config)
	s := &site{t: t, out: t.TempDir(), tree: pki.New(&shared), config: config, kernel: ukitest.Program(4096, ".text"), ipxe: ukitest.Program(0, ".data")}
	_, err := s.tree.Update(&shared, nodes, pki.Options{Now: time.Now(), Random: rand.Reader})
	require.NoError(t, err)
	public := s.tree.Public()
	keys, err := public.SigningKeys()
	require.NoError(t, err)
	config.Public = cluster.Public{Files: public.Files(), SigningKeys: []string{base64.StdEncoding.EncodeToString(keys[0])}}
	s.uki, err = uki.Build(uki.Options{Stub: ukitest.Program(0, ".text"), Kernel: uki.Bytes(s.kernel), Initrd: uki.Bytes("initrd"), Cmdline: cmdline, Uname: "6.12"})
	require.NoError(t, err)
	dir := filepath.Join(s.out, "netboot")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "ipxe"), 0o755))
	f, err := os.Create(filepath.Join(dir, "cluster.squashfs"))
	require.NoError(t, err)
	_, err = clusterpart.Write(f, config, 1_700_000_000)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	for name, data := range map[string][]byte{
		"cmdline": []byte(cmdline), "spore.efi": s.uki, "vmlinuz": s.kernel, "ipxe/undionly.kpxe": []byte("pxe"), "ipxe/snponly.efi": s.ipxe,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	for i := range nodes {
		share, err := pki.ShareOf(&shared, &nodes[i])
		require.NoError(t, err)
		if len(share.Issues) > 0 {
			s.master = nodes[i].Name
		}
	}
	s.serve()
	return s
}

func (s *site) serve() {
	ctx, cancel := context.WithCancel(s.t.Context())
	kept, err := approvals.Load(s.out)
	require.NoError(s.t, err)
	s.server, err = netboot.Open(ctx, netboot.Options{
		Dir: filepath.Join(s.out, "netboot"), Card: netboot.Card{Name: "lo", Prefix: netip.MustParsePrefix("127.0.0.1/8")}, Now: time.Now,
		TFTPPort: -1, Approved: kept, Say: func(format string, args ...any) { s.t.Logf(format, args...) },
	})
	require.NoError(s.t, err)
	var all sync.WaitGroup
	all.Go(func() { require.NoError(s.t, s.server.Serve(ctx)) })
	all.Go(func() { require.NoError(s.t, control.Serve(ctx, s.out, s.server)) })
	s.t.Cleanup(func() { cancel(); all.Wait() })
	require.Eventually(s.t, func() bool { _, err := control.State(ctx, s.out); return err == nil }, 5*time.Second, time.Millisecond)
}

func (s *site) approve(fingerprint, ek string) error {
	_, err := approval.Approve(s.t.Context(), fingerprint, approval.Options{
		Out: s.out, Netboot: "netboot", TPM: ek, Replace: true, Patience: 8 * time.Second, Say: s.t.Logf, // Each test of a site is another machine.
		Bundle: func(_ *roster.Nodes, node string) ([]byte, error) {
			shared, nodes := cluster.Facts(s.config)
			for i := range nodes {
				if nodes[i].Name == node {
					return s.tree.BundleFor(&shared, &nodes[i], time.Now())
				}
			}
			return nil, os.ErrNotExist
		},
	})
	return err
}

// machine is one with an emulated TPM.
type machine struct {
	t   *testing.T
	tpm transport.TPM
	key enroll.Key
	// log is the firmware's, and cmdline the kernel's.
	log     []byte
	cmdline string
	keys    attest.Keys
	bundle  []byte
	// waits has something once it is known that it waits, and taken once it has its bundle.
	waits, taken chan struct{}
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	// The name of a socket has at most 107 characters (unix(7)), and that of the test is in t.TempDir.
	dir, err := os.MkdirTemp("", "tpm")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	cmd := exec.Command("swtpm", "socket", "--tpm2", "--tpmstate", "dir="+dir, "--server", "type=unixio,path="+socket, "--flags", "not-need-init,startup-clear")
	require.NoError(t, cmd.Start(), "run make deps")
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	m := &machine{t: t, cmdline: cmdline, waits: make(chan struct{}, 100), taken: make(chan struct{})}
	require.Eventually(t, func() bool {
		var err error
		if m.tpm, err = linuxudstpm.Open(socket); err != nil {
			return false
		}
		_, err = tpm2.GetRandom{BytesRequested: 8}.Execute(m.tpm)
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	m.key, err = enroll.NewKey()
	require.NoError(t, err)
	m.keys, err = quote.Keys(m.tpm)
	require.NoError(t, err)
	le := binary.LittleEndian
	spec := append([]byte("Spec ID Event03\x00"), 0, 0, 0, 0, 0, 2, 106, 2, 1, 0, 0, 0, 11, 0, 32, 0, 0)
	m.log = append(le.AppendUint32([]byte{0, 0, 0, 0, 3, 0, 0, 0}, 0), make([]byte, 16)...)
	m.log = append(le.AppendUint32(m.log, uint32(len(spec))), spec...)
	return m
}

func (m *machine) extend(register uint32, sum [32]byte) {
	_, err := tpm2.PCRExtend{
		PCRHandle: tpm2.AuthHandle{Handle: tpm2.TPMHandle(register), Auth: tpm2.PasswordAuth(nil)},
		Digests:   tpm2.TPMLDigestValues{Digests: []tpm2.TPMTHA{{HashAlg: tpm2.TPMAlgSHA256, Digest: sum[:]}}},
	}.Execute(m.tpm)
	require.NoError(m.t, err)
}

// starts is what firmware does with a program.
func (m *machine) starts(program []byte) {
	sum, err := authenticode.HashOf(bytes.NewReader(program), int64(len(program)))
	require.NoError(m.t, err)
	m.extend(4, sum)
	le := binary.LittleEndian
	m.log = le.AppendUint32(le.AppendUint32(le.AppendUint32(m.log, 4), 0x80000003), 1)
	m.log = append(le.AppendUint16(m.log, 11), sum[:]...)
	m.log = le.AppendUint32(m.log, 0)
}

// measures is what systemd's stub does with the sections of a UKI. Any program can do it, too.
func (m *machine) measures(image []byte) {
	info, err := uki.Inspect(bytes.NewReader(image))
	require.NoError(m.t, err)
	for _, name := range []string{".linux", ".osrel", ".cmdline", ".initrd", ".ucode", ".splash", ".dtb", ".uname", ".sbat", ".pcrpkey"} {
		for _, s := range info.Sections {
			if s.Name == name && s.VirtualSize > 0 {
				memory := make([]byte, s.VirtualSize)
				copy(memory, image[s.Offset:s.Offset+min(s.RawSize, s.VirtualSize)])
				m.extend(11, sha256.Sum256(append([]byte(name), 0)))
				m.extend(11, sha256.Sum256(memory))
			}
		}
	}
}

// given is what the stub does with a command line that it was started with.
func (m *machine) given(words string) {
	var b []byte
	for _, u := range append(utf16.Encode([]rune(words)), 0) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	m.extend(12, sha256.Sum256(b))
	m.cmdline = words
}

// asks runs the agent's part until the bundle is taken, and returns the fingerprint on the console.
func (m *machine) asks(s *site, node string) string {
	c := enroll.NewClaim(enroll.Claim{Cluster: s.server.Nodes().Cluster.ID, Node: node, Key: m.key.Public(), TPM: &m.keys})
	client := enroll.Client{Base: s.server.Base()}
	prove := func(nonce []byte, subject string) (*attest.Evidence, error) {
		return quote.Quote(m.tpm, nonce, subject, bytes.NewReader(m.log), m.cmdline)
	}
	ctx, cancel := context.WithCancel(m.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = enrolment.Run(ctx, enrolment.Input{
			Claim: c, Base: client.Base, Server: "the server", Why: "no bundle came", Ask: enrolment.WithProof(client.Ask, c, prove, func(string) {}), Show: func(string) error { m.waits <- struct{}{}; return nil },
			Take: func(_ context.Context, sealed []byte) (err error) {
				m.bundle, err = m.key.Open(sealed, func(credential, secret []byte) ([]byte, error) { return quote.Activate(m.tpm, credential, secret) })
				if err == nil {
					close(m.taken)
				}
				return err
			},
			Sleep: func(ctx context.Context, _ time.Duration) error { return wait.Sleep(ctx, 20*time.Millisecond) },
		})
	}()
	m.t.Cleanup(func() { cancel(); <-done })
	select {
	case <-m.waits:
	case <-time.After(20 * time.Second):
		m.t.Fatal("it does not ask")
	}
	return c.Fingerprint()
}

func TestAMasterGetsItsSecretsWhenItsTPMProvesWhatWasStarted(t *testing.T) {
	s := newSite(t)
	for name, start := range map[string]func(m *machine){
		"by HTTP boot": func(m *machine) {
			m.starts(s.uki)
			m.starts(s.kernel)
			m.measures(s.uki)
		},
		"by iPXE": func(m *machine) {
			m.starts(s.ipxe)
			m.starts(s.uki)
			m.given("ro " + cmdline + " spore.url=" + s.server.Base())
			m.measures(s.uki)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			start(m)
			fingerprint, ek := m.asks(s, s.master), attest.Fingerprint(m.keys.EK)
			require.ErrorContains(t, s.approve(fingerprint, ""), "It shows a TPM with the fingerprint "+ek)
			require.ErrorContains(t, s.approve(fingerprint, "aaaa"), "its TPM has the fingerprint "+ek)
			require.NoError(t, s.approve(fingerprint, ek))
			select {
			case <-m.taken:
			case <-time.After(20 * time.Second):
				t.Fatal("it has not got its bundle")
			}
			require.True(t, bytes.HasPrefix(m.bundle, []byte("spore-bundle 1 ")))
			kept, err := approvals.Load(s.out)
			require.NoError(t, err)
			require.Len(t, kept, 1)
			_, err = m.key.Open(kept[0].Sealed, func(_, _ []byte) ([]byte, error) { return make([]byte, 32), nil })
			require.Error(t, err, "the machine's key alone does not open it")
		})
	}
}

// The nonce is there for everybody to read, and so is the claim: an answer of somebody else must not keep the machine
// out.
func TestAnAnswerOfSomebodyElseKeepsTheMachineFromNothing(t *testing.T) {
	s, m := newSite(t), newMachine(t)
	m.starts(s.uki)
	m.measures(s.uki)
	fingerprint := m.asks(s, s.master)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		client := enroll.Client{Base: s.server.Base()}
		c := enroll.NewClaim(enroll.Claim{Cluster: s.server.Nodes().Cluster.ID, Node: s.master, Key: m.key.Public(), TPM: &m.keys})
		for ctx.Err() == nil {
			a, err := client.Ask(ctx, c)
			if err == nil && len(a.Pending.Nonce) > 0 {
				bad := c
				sum := make([]byte, 32)
				bad.Evidence = &attest.Evidence{Nonce: a.Pending.Nonce, Quote: []byte("x"), Signature: []byte("x"), Registers: [][]byte{sum, sum, sum}}
				_, _ = client.Ask(ctx, bad)
			}
			_ = wait.Sleep(ctx, 100*time.Millisecond)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	require.NoError(t, s.approve(fingerprint, attest.Fingerprint(m.keys.EK)))
	select {
	case <-m.taken:
	case <-time.After(20 * time.Second):
		t.Fatal("it has not got its bundle")
	}
}

// Who answers PXE first starts what he wants on the machine, which has the right TPM and shows any fingerprint.
func TestASystemOfSomebodyElseGetsNothing(t *testing.T) {
	s := newSite(t)
	evil := ukitest.Program(0, ".evil")
	for name, tt := range map[string]struct {
		start func(m *machine)
		want  string
	}{
		"that measures what the UKI would": {func(m *machine) {
			m.starts(evil)
			m.measures(s.uki)
		}, "the firmware started a program that is not served here"},
		"that was started from a disk, by the boot loader there": {func(m *machine) {
			m.starts(ukitest.Program(0, ".boot"))
			m.starts(s.uki)
			m.starts(s.kernel)
			m.measures(s.uki)
		}, "A machine that was started from a disk or stick cannot give this proof: bring its bundle on the medium (`spore flash --node " + s.master + "`)"},
		"that shows another log": {func(m *machine) {
			log := m.log
			m.starts(evil)
			m.log = log
			m.measures(s.uki)
		}, "does not match its PCR 4"},
		"by our iPXE, with a command line of its own": {func(m *machine) {
			m.starts(s.ipxe)
			m.starts(s.uki)
			m.given("ro " + cmdline + " spore.console")
			m.measures(s.uki)
		}, `the word "spore.console"`},
		"that is an older image of ours": {func(m *machine) {
			m.starts(s.uki)
			m.measures(ukitest.Program(0, ".linux"))
		}, "another build of it was started"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			tt.start(m)
			fingerprint := m.asks(s, s.master)
			err := s.approve(fingerprint, attest.Fingerprint(m.keys.EK))
			require.ErrorContains(t, err, "its TPM does not vouch for it")
			require.ErrorContains(t, err, tt.want)
			kept, err := approvals.Load(s.out)
			require.NoError(t, err)
			require.Empty(t, kept)
		})
	}
}
