package delivery

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/medium"
	"spore/pki/bundle"
	"spore/pki/seal"
)

const (
	clusterID  = "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11"
	node       = "edge-01"
	passphrase = "five words drawn by dice"
)

var signing = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

var errCut = errors.New("the power was cut")

// signed is bundle number serial of the node.
func signed(t testing.TB, serial uint64, change ...func(*bundle.Bundle)) []byte {
	t.Helper()
	b := bundle.Bundle{
		Cluster: clusterID, Node: node, Serial: serial, Issued: time.Unix(1_800_000_000, 0).UTC(),
		Authorities: map[string]string{"mqtt": "k1"}, Secrets: map[string]string{"password": strings.Repeat("hunter2 ", 200)},
	}
	for _, c := range change {
		c(&b)
	}
	data, err := bundle.Sign(b, signing)
	require.NoError(t, err)
	return data
}

func locked(t testing.TB, data []byte) []byte {
	t.Helper()
	out, err := seal.WithPassphrase(data, passphrase, 10)
	require.NoError(t, err)
	return out
}

// machine is a machine over several boots: what is on its state partition and its stick lies in directories.
type machine struct {
	t         testing.TB
	dir       string
	firmware  []byte
	cloud     []byte
	network   []byte
	opened    map[string][]byte
	noState   bool
	noMedium  bool
	unopened  error // what opening the stored bundle says
	sealFails error
	mount     error
	said      []string
	// cut, when not negative, is the number of steps until the power is cut.
	cut   int
	steps []string
}

func newMachine(t testing.TB) *machine {
	m := &machine{t: t, dir: t.TempDir(), cut: -1, opened: map[string][]byte{}}
	require.NoError(t, os.MkdirAll(filepath.Dir(m.stick()), 0o755))
	return m
}

func (m *machine) stick() string { return filepath.Join(m.dir, "esp", medium.Path) }

func (m *machine) stored() string { return filepath.Join(m.dir, "stored") }

func (m *machine) put(data []byte) { require.NoError(m.t, os.WriteFile(m.stick(), data, 0o600)) }

// step is where the power can be cut.
func (m *machine) step(name string) error {
	m.steps = append(m.steps, name)
	if m.cut >= 0 && len(m.steps) > m.cut {
		panic(errCut)
	}
	return nil
}

func (m *machine) Open(context.Context) ([]byte, string, error) {
	if m.unopened != nil {
		if _, err := os.Stat(m.stored()); err == nil {
			return nil, "tpm2", m.unopened
		}
	}
	data, err := os.ReadFile(m.stored())
	return data, "host", err
}

func (m *machine) Seal(_ context.Context, data []byte) (string, error) {
	if m.sealFails != nil {
		return "", m.sealFails
	}
	_ = m.step("seal")
	require.NoError(m.t, os.WriteFile(m.stored(), data, 0o600)) // Whole or not at all: package atomicfile.
	_ = m.step("read back")
	return "host", nil
}

func (m *machine) PutAside() error {
	_ = m.step("put aside")
	return os.Rename(m.stored(), m.stored()+".unopened")
}

// boot takes the bundle as a boot does. cut says that the power went before it was done.
func (m *machine) boot() (out Outcome, cut bool) {
	m.steps, m.said = nil, nil
	in := Input{
		Whose:   bundle.Whose{Cluster: clusterID, Node: node, Keys: []ed25519.PublicKey{signing.Public().(ed25519.PublicKey)}},
		Knows:   func(_ *bundle.Bundle, name, id string) (bool, error) { return name == "mqtt" && id == "k1", nil },
		Taken:   filepath.Join(m.dir, "taken"),
		NoVault: "/var is a tmpfs", Say: func(s string) { m.said = append(m.said, s) },
	}
	if data, err := os.ReadFile(m.stick()); err == nil {
		in.Delivered = append(in.Delivered, Delivered{From: Medium, Data: data, Opened: m.opened[string(data)]})
	}
	if m.cloud != nil {
		in.Delivered = append(in.Delivered, Delivered{From: NoCloud, Data: m.cloud})
	}
	if m.firmware != nil {
		in.Delivered = append(in.Delivered, Delivered{From: Firmware, Data: m.firmware, Opened: m.opened[string(m.firmware)]})
	}
	if m.network != nil {
		in.Delivered = append(in.Delivered, Delivered{From: Network, Data: m.network})
	}
	if !m.noState {
		in.Vault = m
	}
	if !m.noMedium {
		in.Medium = medium.ESP{
			Dir: filepath.Join(m.dir, "esp"), Step: m.step, Unmount: func(string) error { return nil },
			Mount: func(_, _ string) error { return m.mount },
		}
	}
	defer func() {
		if p := recover(); p != nil {
			if p != any(errCut) {
				panic(p)
			}
			cut = true
		}
	}()
	return Take(context.Background(), in), false
}

func (m *machine) bundleOnStick() bool {
	_, err := os.Stat(m.stick())
	return !errors.Is(err, fs.ErrNotExist)
}

func TestWhichBundleIsTaken(t *testing.T) {
	foreign := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
	flipped := signed(t, 3)
	flipped[len(flipped)-10] ^= 1
	forged, err := bundle.Sign(bundle.Bundle{Cluster: clusterID, Node: node, Serial: 9}, foreign)
	require.NoError(t, err)
	type want struct {
		info    Info
		problem string // a part of Info.Problem
		stick   bool   // the stick still has its file
		stored  uint64
	}
	for name, tc := range map[string]struct {
		stored, stick, firmware, network []byte
		// cloud is that of NoCloud.
		cloud  []byte
		change func(*machine)
		want   want
	}{
		"nothing anywhere":                         {want: want{}},
		"the stored one":                           {stored: signed(t, 3), want: want{info: Info{Serial: 3, From: State, Sealed: "host"}, stored: 3}},
		"one of the firmware":                      {firmware: signed(t, 3), want: want{info: Info{Serial: 3, From: Firmware, Sealed: "host"}, stored: 3}},
		"one of the server":                        {network: signed(t, 3), want: want{info: Info{Serial: 3, From: Network, Sealed: "host"}, stored: 3}},
		"one of NoCloud":                           {cloud: signed(t, 3), want: want{info: Info{Serial: 3, From: NoCloud, Sealed: "host"}, stored: 3}},
		"one of NoCloud that is on the stick, too": {cloud: signed(t, 3), stick: signed(t, 3), want: want{info: Info{Serial: 3, From: Medium, Sealed: "host"}, stored: 3}},
		"one of NoCloud for another node": {stored: signed(t, 2), cloud: signed(t, 9, func(b *bundle.Bundle) { b.Node = "dns-01" }), want: want{
			info: Info{Serial: 2, From: State, Sealed: "host"}, problem: `the bundle of NoCloud's user-data was refused: the secret bundle is for another machine: it is for node "dns-01", and this is "edge-01"`, stored: 2}},
		"one of NoCloud by other keys": {cloud: forged, want: want{problem: "the bundle of NoCloud's user-data was refused: the secret bundle is not signed by this cluster"}},
		"an older one of NoCloud": {stored: signed(t, 4), cloud: signed(t, 3), want: want{
			info: Info{Serial: 4, From: State, Sealed: "host"}, problem: "the bundle of NoCloud's user-data has the serial 3 and was refused: the stored bundle has 4", stored: 4}},
		"a mark of the stick as NoCloud's":   {cloud: []byte(medium.Mark), stick: signed(t, 3), want: want{info: Info{Serial: 3, From: Medium, Sealed: "host"}, stored: 3}},
		"nonsense of NoCloud":                {cloud: []byte("hunter2"), want: want{problem: "the bundle of NoCloud's user-data was refused: "}},
		"an older one of the server":         {stored: signed(t, 4), network: signed(t, 3), want: want{info: Info{Serial: 4, From: State, Sealed: "host"}, problem: "the bundle that the server sent has the serial 3 and was refused", stored: 4}},
		"without state the server's is used": {network: signed(t, 3), change: func(m *machine) { m.noState = true }, want: want{info: Info{Serial: 3, From: Network, Forgets: "/var is a tmpfs"}}},
		"one of the boot medium":             {stick: signed(t, 3), want: want{info: Info{Serial: 3, From: Medium, Sealed: "host"}, stored: 3}},
		"a newer one than stored":            {stored: signed(t, 3), stick: signed(t, 4), want: want{info: Info{Serial: 4, From: Medium, Sealed: "host"}, stored: 4}},
		"the same again":                     {stored: signed(t, 3), firmware: signed(t, 3), want: want{info: Info{Serial: 3, From: State, Sealed: "host"}, stored: 3}},
		"the same again, on stick":           {stored: signed(t, 3), stick: signed(t, 3), want: want{info: Info{Serial: 3, From: State, Sealed: "host"}, stored: 3}},
		"the newer of two":                   {stick: signed(t, 4), firmware: signed(t, 3), want: want{info: Info{Serial: 4, From: Medium, Sealed: "host"}, problem: "the bundle that the firmware gave has the serial 3 and was refused", stored: 4}},
		"a half removed one":                 {stored: signed(t, 3), stick: []byte(medium.Mark + "\x00\x00"), want: want{info: Info{Serial: 3, From: State, Sealed: "host"}, stored: 3}},
		"a half removed one, alone":          {stick: []byte(medium.Mark), want: want{}},
		"an older one is refused": {stored: signed(t, 3), stick: signed(t, 2), want: want{
			info: Info{Serial: 3, From: State, Sealed: "host"}, problem: "the bundle of the boot medium has the serial 2 and was refused: the stored bundle has 3", stick: true, stored: 3}},
		"the same serial with another content is refused": {stored: signed(t, 3), stick: signed(t, 3, func(b *bundle.Bundle) { b.Issued = b.Issued.Add(time.Hour) }), want: want{
			info: Info{Serial: 3, From: State, Sealed: "host"}, problem: "and another content", stick: true, stored: 3}},
		"one that was changed is refused": {stored: signed(t, 2), stick: flipped, want: want{
			info: Info{Serial: 2, From: State, Sealed: "host"}, problem: "the bundle of the boot medium was refused: the secret bundle is not signed by this cluster", stick: true, stored: 2}},
		"one that was cut is refused":     {firmware: signed(t, 3)[:400], want: want{problem: "not signed by this cluster"}},
		"one of another cluster's keys":   {firmware: forged, want: want{problem: "not signed by this cluster"}},
		"one of another node is refused":  {stick: signed(t, 3, func(b *bundle.Bundle) { b.Node = "dns-01" }), want: want{problem: `it is for node "dns-01", and this is "edge-01"`, stick: true}},
		"one of another cluster":          {stick: signed(t, 3, func(b *bundle.Bundle) { b.Cluster = "x" }), want: want{problem: `for the cluster with the id "x"`, stick: true}},
		"nonsense is refused":             {stick: []byte("hunter2"), want: want{problem: "malformed", stick: true}},
		"an empty file is refused":        {stick: []byte{}, want: want{problem: "malformed", stick: true}},
		"one that stands on other keys":   {stick: signed(t, 4, func(b *bundle.Bundle) { b.Authorities["mqtt"] = "k2" }), stored: signed(t, 3), want: want{info: Info{Serial: 3, From: State, Sealed: "host"}, problem: `a key of the authority "mqtt" that this image does not know; build the image again`, stick: true, stored: 3}},
		"one of an authority that is not": {stick: signed(t, 4, func(b *bundle.Bundle) { b.Authorities["etcd"] = "k1" }), want: want{problem: `"etcd"`, stick: true}},
		"without state it stays where it is": {stick: signed(t, 3), change: func(m *machine) { m.noState = true }, want: want{
			info: Info{Serial: 3, From: Medium, Forgets: "/var is a tmpfs"}, problem: "the bundle stays on the boot medium: /var is a tmpfs", stick: true}},
		"without state the firmware's is normal": {firmware: signed(t, 3), change: func(m *machine) { m.noState = true }, want: want{info: Info{Serial: 3, From: Firmware, Forgets: "/var is a tmpfs"}}},
		"a read-only medium is said": {stick: signed(t, 3), change: func(m *machine) { m.mount = errors.New("it is read-only") }, want: want{
			info: Info{Serial: 3, From: Medium, Sealed: "host"}, problem: "the bundle stays on the boot medium: mount the boot medium: it is read-only", stick: true, stored: 3}},
		"a medium that was not found is said": {stick: signed(t, 3), change: func(m *machine) { m.noMedium = true }, want: want{
			info: Info{Serial: 3, From: Medium, Sealed: "host"}, problem: "its partition was not found", stick: true, stored: 3}},
		"what cannot be sealed is used and stays": {stick: signed(t, 3), change: func(m *machine) { m.sealFails = errors.New("no space left") }, want: want{
			info: Info{Serial: 3, From: Medium, Forgets: "no space left"}, problem: "the bundle is used and is not kept: no space left; the bundle stays on the boot medium", stick: true}},
		"a stored one that cannot be opened is said": {stored: signed(t, 3), change: func(m *machine) { m.unopened = errors.New("was the TPM cleared?") }, want: want{
			problem: "the stored bundle cannot be opened and was kept as it is: was the TPM cleared?", stored: 3}},
		"and another is taken instead": {stored: signed(t, 3), stick: signed(t, 3), change: func(m *machine) { m.unopened = errors.New("was the TPM cleared?") }, want: want{
			info: Info{Serial: 3, From: Medium, Sealed: "host"}, problem: "was the TPM cleared?", stored: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			if tc.stored != nil {
				require.NoError(t, os.WriteFile(m.stored(), tc.stored, 0o600))
			}
			if tc.stick != nil {
				m.put(tc.stick)
			}
			m.firmware, m.network, m.cloud = tc.firmware, tc.network, tc.cloud
			if tc.change != nil {
				tc.change(m)
			}
			out, _ := m.boot()
			require.Contains(t, out.Info.Problem, tc.want.problem)
			require.Equal(t, tc.want.problem == "", out.Info.Problem == "", out.Info.Problem)
			require.NotContains(t, out.Info.Problem+strings.Join(m.said, ""), "hunter2", "no secret is said")
			out.Info.Problem = ""
			require.Equal(t, tc.want.info, out.Info)
			require.Equal(t, tc.want.info.Serial > 0, out.Bundle != nil)
			require.Equal(t, tc.want.stick, m.bundleOnStick())
			require.Nil(t, out.Ask)
			stored, err := os.ReadFile(m.stored())
			require.Equal(t, tc.want.stored > 0, err == nil)
			if err == nil {
				b, err := bundle.Open(bytes.NewReader(stored), bundle.Whose{Cluster: clusterID, Node: node, Keys: []ed25519.PublicKey{signing.Public().(ed25519.PublicKey)}})
				require.NoError(t, err)
				require.Equal(t, tc.want.stored, b.Serial)
			}
			if tc.stored != nil && m.unopened != nil && tc.stick != nil {
				require.FileExists(t, m.stored()+".unopened")
			}
		})
	}
}

// An old bundle is as well signed as the new one. State remembers the serial; without it nothing on the machine can
// tell the two apart, and the status line says so.
func TestAnOldBundleIsPlayedAgainOnlyWhereNothingLasts(t *testing.T) {
	for _, noState := range []bool{false, true} {
		m := newMachine(t)
		m.noState = noState
		for _, serial := range []uint64{4, 3} {
			m.firmware = signed(t, serial)
			out, _ := m.boot()
			if !noState {
				require.EqualValues(t, 4, out.Info.Serial)
				require.Empty(t, out.Info.Forgets)
				continue
			}
			require.Equal(t, serial, out.Info.Serial)
			require.Equal(t, "/var is a tmpfs", out.Info.Forgets)
		}
	}
}

func TestWithoutKeysNoBundleIsTaken(t *testing.T) {
	for name, data := range map[string][]byte{"signed": signed(t, 3), "encrypted": locked(t, signed(t, 3)), "plain": []byte(`{"cluster":"x"}`)} {
		t.Run(name, func(t *testing.T) {
			out := Take(context.Background(), Input{Whose: bundle.Whose{Cluster: clusterID, Node: node}, Delivered: []Delivered{{From: Firmware, Data: data}}})
			require.Equal(t, Info{Problem: WithoutKeys}, out.Info)
			require.Nil(t, out.Bundle)
			require.Nil(t, out.Ask)
		})
	}
}

// Whatever step is the last before the power goes, the next boot has the bundle, and in the end it is on the state partition
// alone.
func TestACutAtAnyPointLosesNothingAndLeavesNothing(t *testing.T) {
	plain, newer := signed(t, 3), signed(t, 4)
	for name, tc := range map[string]struct {
		stored, stick []byte
		opened        bool
	}{
		"the first bundle":             {nil, plain, false},
		"a newer bundle":               {plain, newer, false},
		"one that a passphrase opened": {plain, locked(t, newer), true},
	} {
		t.Run(name, func(t *testing.T) {
			steps := 1
			for cut := 0; cut < steps; cut++ {
				m := newMachine(t)
				if tc.stored != nil {
					require.NoError(t, os.WriteFile(m.stored(), tc.stored, 0o600))
				}
				m.put(tc.stick)
				want := uint64(3)
				if tc.stored != nil {
					want = 4
				}
				if tc.opened {
					m.opened[string(tc.stick)] = newer
				}
				if cut == 0 {
					whole := *m
					whole.dir = t.TempDir()
					require.NoError(t, os.CopyFS(whole.dir, os.DirFS(m.dir)))
					_, was := whole.boot()
					require.False(t, was)
					steps = len(whole.steps)
					require.Equal(t, []string{"seal", "read back", "mark", "sync the mark", "blank", "sync the blank", "delete", "sync the directory"}, whole.steps)
				}
				m.cut = cut
				_, was := m.boot()
				require.True(t, was, "cut %d", cut)
				m.cut = -1
				if cut > 0 { // From the seal on, nobody is asked again.
					m.opened = nil
				}
				out, was := m.boot()
				require.False(t, was)
				require.NotNil(t, out.Bundle, "cut %d", cut)
				require.Equal(t, want, out.Bundle.Serial, "cut %d: nothing is lost", cut)
				require.Empty(t, out.Info.Problem, "cut %d", cut)
				require.False(t, m.bundleOnStick(), "cut %d: nothing is left", cut)
				out, _ = m.boot()
				require.Equal(t, Info{Serial: want, From: State, Sealed: "host"}, out.Info, "cut %d: and so it stays", cut)
				require.Empty(t, m.steps)
			}
		})
	}
}

func TestAnEncryptedBundleWaitsForItsPassphrase(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, os.WriteFile(m.stored(), signed(t, 3), 0o600))
	box := locked(t, signed(t, 4))
	m.firmware = box
	out, _ := m.boot()
	require.Equal(t, uint64(3), out.Bundle.Serial, "what is stored serves meanwhile")
	require.Equal(t, "the bundle that the firmware gave is encrypted: waiting for the passphrase, which is asked for on the console", out.Info.Problem)
	require.Equal(t, box, out.Ask.Data)

	opened, err := seal.OpenOnNode(box, passphrase, bundle.MaxSize)
	require.NoError(t, err)
	m.opened[string(box)] = opened
	out, _ = m.boot()
	require.Equal(t, Info{Serial: 4, From: Firmware, Sealed: "host"}, out.Info)

	m.opened = nil
	out, _ = m.boot()
	require.Equal(t, Info{Serial: 4, From: State, Sealed: "host"}, out.Info, "the same file does not ask again")
	require.Nil(t, out.Ask)

	m.firmware = locked(t, signed(t, 5))
	out, _ = m.boot()
	require.NotNil(t, out.Ask, "another does")
}

func TestWhatNoPassphraseOpensIsSaid(t *testing.T) {
	m := newMachine(t)
	m.put([]byte(seal.Magic + "\n-> X25519 abc\nxyz\n"))
	out, _ := m.boot()
	require.Nil(t, out.Ask)
	require.Contains(t, out.Info.Problem, "the bundle of the boot medium was refused: ")
	require.True(t, m.bundleOnStick())
}

func FuzzTake(f *testing.F) {
	f.Add(signed(f, 3))
	f.Add(locked(f, signed(f, 3)))
	f.Add([]byte(medium.Mark))
	f.Add([]byte("spore-bundle 1 x y\n{}"))
	good := signed(f, 3)
	f.Fuzz(func(t *testing.T, data []byte) {
		m := newMachine(t)
		m.put(data)
		out, _ := m.boot()
		if out.Bundle != nil {
			require.Equal(t, good, data, "only the signed form is taken")
		}
		if !out.Removed {
			left, err := os.ReadFile(m.stick())
			require.NoError(t, err)
			require.Equal(t, data, left)
		}
	})
}
