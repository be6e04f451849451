package unlock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/luks"
	"spore/agent/tpm"
	"spore/cluster/spec"
)

const (
	recovery   = "cbdefghi-cbdefghi-cbdefghi-cbdefghi-cbdefghi-cbdefghi-cbdefghi-cbdefghi"
	passphrase = "a long passphrase"
	pin        = "482913"
)

// pem is the key that signs PCR 11 in these tests, and keys the PCR 7 of their machine.
var (
	//go:embed testdata/pcr.pub
	pem  string
	keys = tpm.Digest{7: 1}
	// before is the PCR 7 of other keys in the firmware.
	before = tpm.Digest{7: 2}
	words  = tpm.Digest{12: 1}
)

// machine stands for the partition, the machine and the person before it.
type machine struct {
	t *testing.T
	// opens says what opens the partition: tpm2, or a key's text.
	opens map[string]bool
	tpm   bool
	// start is what was measured; a machine with Secure Boot when it is zero.
	start Start
	// bundle is the recovery key of the bundle that came; empty when none did.
	bundle  string
	host    *host
	answers []string
	fails   string
	// done are the programs that were run, with keys in place of files, and said what was said.
	done, said, asked []string
}

type host struct {
	key   string
	err   error
	makes int
}

func (h *host) Read() (string, error) {
	if h.err != nil {
		return "", h.err
	}
	if h.key == "" {
		return "", ErrNoKey
	}
	return h.key, nil
}

func (h *host) Make() (string, error) {
	h.makes++
	h.key, h.err = fmt.Sprintf("host key %d", h.makes), nil
	return h.key, nil
}

func (m *machine) options(want *spec.State, signed bool) *Options {
	dir := m.t.TempDir()
	public := filepath.Join(dir, "public.pem")
	if signed {
		require.NoError(m.t, os.WriteFile(public, []byte(pem), 0o600))
	}
	if m.host == nil {
		m.host = &host{}
	}
	files := filepath.Join(dir, "keys")
	m.t.Cleanup(func() {
		left, err := os.ReadDir(files)
		if err == nil {
			require.Empty(m.t, left, "no key stays in a file")
		}
	})
	start := m.start
	if start == (Start{}) {
		start = Start{SecureBoot: true}
	}
	if start.Keys == (tpm.Digest{}) {
		start.Keys = keys
	}
	return &Options{
		Start: func() (Start, error) { return start, nil },
		Want:  want, Node: "edge-01", PublicKey: public, Dir: files, Host: m.host,
		HasTPM: func(context.Context) bool { return m.tpm },
		Delivered: func(context.Context) (string, error) {
			if m.bundle == "" {
				return "", errors.New("none came with the machine")
			}
			return m.bundle, nil
		},
		Ask: func(_ context.Context, question string) (string, error) {
			m.asked = append(m.asked, question)
			if len(m.answers) == 0 {
				return "", errors.New("nobody is there")
			}
			a := m.answers[0]
			m.answers = m.answers[1:]
			return a, nil
		},
		Exec: m.exec,
		Say:  func(s string) { m.said = append(m.said, s) },
	}
}

// exec does what systemd's programs would.
func (m *machine) exec(_ context.Context, env []string, name string, args ...string) error {
	line := name
	key := ""
	for _, a := range append(args, env...) {
		file := strings.TrimPrefix(a, "--unlock-key-file=")
		if dir, ok := strings.CutPrefix(a, "CREDENTIALS_DIRECTORY="); ok {
			entries, err := os.ReadDir(dir)
			require.NoError(m.t, err)
			for _, e := range entries {
				data, err := os.ReadFile(filepath.Join(dir, e.Name()))
				require.NoError(m.t, err)
				line += " " + e.Name() + "=" + string(data)
			}
			continue
		}
		if strings.Contains(file, "/keys/key-") {
			st, err := os.Stat(file)
			require.NoError(m.t, err)
			require.Equal(m.t, os.FileMode(0o600), st.Mode().Perm())
			data, err := os.ReadFile(file)
			require.NoError(m.t, err)
			key = string(data)
			a = strings.Replace(a, file, "<"+key+">", 1)
		}
		if p, ok := strings.CutPrefix(a, "--tpm2-public-key=/"); ok {
			a = "--tpm2-public-key=" + filepath.Base(p)
		}
		line += " " + a
	}
	m.done = append(m.done, line)
	if m.fails != "" && strings.Contains(line, m.fails) {
		return errors.New("it fails")
	}
	if name != "systemd-cryptsetup" {
		return nil
	}
	if args[3] == "-" {
		key = "tpm2"
		if len(env) > 0 {
			key += " " + env[0]
		}
	}
	if !m.opens[key] {
		return errors.New("wrong key")
	}
	return nil
}

// unsealed is a slot of an unsigned image's TPM, bound one of a signed image's, for a PCR 7.
func unsealed(slot int) luks.Token { return luks.Token{Type: luks.TokenTPM, Slots: []int{slot}} }

func bound(slot int, keys tpm.Digest, pin bool) luks.Token {
	key, err := tpm.PublicKey([]byte(pem))
	if err != nil {
		panic(err)
	}
	return luks.Token{
		Type: luks.TokenTPM, Slots: []int{slot}, PublicKey: []byte(pem), PCRs: []int{7, 12}, PIN: pin,
		Policy: tpm.Policy{Signer: key, Keys: keys, PIN: pin}.Digest().String(),
	}
}

const (
	attach = "systemd-cryptsetup attach spore-state /dev/null "
	asTPM  = attach + "- luks,headless=true,tpm2-device=auto,token-timeout=10s"
	byKey  = attach + "<%s> luks,headless=true,tries=1"
	enroll = "systemd-cryptenroll "
	anyTPM = enroll + "--tpm2-device=auto --tpm2-pcrs= --tpm2-pcrlock= "
)

// toTPM makes a slot that is bound to the image's key, to a PCR 7, and to nothing from outside.
func toTPM(keys tpm.Digest) string {
	return enroll + "--tpm2-device=auto --tpm2-pcrs=7:sha256=" + keys.String() + "+12:sha256=" + strings.Repeat("0", 64) + " --tpm2-pcrlock= " +
		"--tpm2-public-key=public.pem --tpm2-public-key-pcrs=11 "
}

func key(k string) string { return fmt.Sprintf(byKey, k) }

func TestOpen(t *testing.T) {
	byChip := &spec.State{Encrypt: spec.EncryptTPM, WithoutTPM: spec.RefuseWithoutTPM}
	phrase, hosted, pinned := &spec.State{Encrypt: spec.EncryptPassphrase}, &spec.State{Encrypt: spec.EncryptHostKey}, &spec.State{Encrypt: spec.EncryptTPMPIN}
	fresh := luks.Header{Slots: []int{0}}
	sealed := luks.Header{Slots: []int{0, 1}, Tokens: []luks.Token{bound(1, keys, false)}}
	locked := luks.Header{Slots: []int{0, 1}}
	for name, tc := range map[string]struct {
		machine  machine
		want     *spec.State
		unsigned bool
		header   luks.Header
		done     []string
		info     Info
		asked    []string
		said     string
		warning  string
		err      string
	}{
		"new: the bundle opens it, and the TPM gets a slot under the image's key": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, bundle: recovery}, want: byChip, header: fresh,
			done: []string{key(recovery), toTPM(keys) + "--wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null"},
			info: Info{Opened: Recovery},
		},
		"new, with an image that nobody signed": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, bundle: recovery}, want: byChip, header: fresh, unsigned: true,
			done: []string{key(recovery), anyTPM + "--wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null"},
			info: Info{Opened: Recovery}, said: "the image has no signature of PCR 11",
		},
		"the TPM opens it with nobody there": {
			machine: machine{opens: map[string]bool{"tpm2": true}, tpm: true}, want: byChip, header: sealed,
			done: []string{asTPM}, info: Info{Opened: "tpm2"},
		},
		"the image was signed since": {
			machine: machine{opens: map[string]bool{"tpm2": true}, tpm: true}, want: byChip, header: luks.Header{Slots: []int{0, 1}, Tokens: []luks.Token{unsealed(1)}},
			done: []string{asTPM, toTPM(keys) + "--wipe-slot=tpm2 --unlock-tpm2-device=auto /dev/null"}, info: Info{Opened: "tpm2"},
		},
		"the TPM was cleared: the console takes the recovery key, and the TPM gets a new slot": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, answers: []string{"wrong", strings.ToUpper(strings.ReplaceAll(recovery, "-", ""))}}, want: byChip, header: sealed,
			done: []string{asTPM, key("wrong"), key(recovery), enroll + "--wipe-slot=1 /dev/null",
				toTPM(keys) + "--wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null"},
			asked: []string{"Recovery key of the state of edge-01:", "That does not open it. Recovery key of the state of edge-01:"},
			info:  Info{Opened: Recovery}, said: "what was typed does not open the state; nothing was changed",
		},
		"the TPM was cleared, and a bundle was delivered again": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, bundle: recovery}, want: byChip, header: sealed,
			done: []string{asTPM, key(recovery), enroll + "--wipe-slot=1 /dev/null", toTPM(keys) + "--wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null"},
			info: Info{Opened: Recovery}, said: "was it cleared",
		},
		"the bundle is of another node, and nobody is at the console": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, bundle: "another"}, want: byChip, header: fresh,
			done: []string{key("another")}, asked: []string{"Recovery key of the state of edge-01:"},
			said: "the recovery key of the bundle that came with the machine does not open the state", err: "nobody could be asked for its recovery key: nobody is there",
		},
		"the TPM is gone": {
			machine: machine{opens: map[string]bool{recovery: true}, answers: []string{recovery}}, want: byChip, header: sealed,
			done: []string{key(recovery)}, asked: []string{"Recovery key of the state of edge-01:"}, info: Info{Opened: Recovery},
			said: "this machine has none that works", warning: "the configuration wants the TPM to open the state, and this machine has no TPM 2.0 that works",
		},
		"the TPM does not seal": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, bundle: recovery, fails: "cryptenroll"}, want: byChip, header: fresh, unsigned: true,
			done: []string{key(recovery), anyTPM + "--wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null"},
			info: Info{Opened: Recovery}, warning: "could not be changed: it fails",
		},
		"a new passphrase is asked for twice": {
			machine: machine{opens: map[string]bool{recovery: true}, bundle: recovery, answers: []string{"short", recovery, passphrase, "another one that is long", passphrase, passphrase}}, want: phrase, header: fresh,
			done: []string{key(recovery), enroll + "--password --wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null cryptenroll.new-passphrase=" + passphrase},
			asked: []string{"New passphrase for the state of edge-01, at least 12 characters:", "That is too short. New passphrase for the state of edge-01, at least 12 characters:",
				"That has the form of a recovery key. New passphrase for the state of edge-01, at least 12 characters:", "The same once more:",
				"These were two. New passphrase for the state of edge-01, at least 12 characters:", "The same once more:"},
			info: Info{Opened: Recovery},
		},
		"the passphrase opens it": {
			machine: machine{opens: map[string]bool{passphrase: true}, answers: []string{passphrase}}, want: phrase, header: locked,
			done: []string{key(passphrase)}, asked: []string{"Passphrase, or recovery key, of the state of edge-01:"}, info: Info{Opened: "passphrase"},
		},
		"the passphrase was forgotten: another takes its place": {
			machine: machine{opens: map[string]bool{recovery: true}, answers: []string{recovery, passphrase, passphrase}}, want: phrase, header: locked,
			done:  []string{key(recovery), enroll + "--password --wipe-slot=tpm2,1 --unlock-key-file=<" + recovery + "> /dev/null cryptenroll.new-passphrase=" + passphrase},
			asked: []string{"Passphrase, or recovery key, of the state of edge-01:", "New passphrase for the state of edge-01, at least 12 characters:", "The same once more:"},
			info:  Info{Opened: Recovery},
		},
		"a bundle that was delivered again asks for no other passphrase": {
			machine: machine{opens: map[string]bool{recovery: true}, bundle: recovery}, want: phrase, header: locked,
			done: []string{key(recovery)}, info: Info{Opened: Recovery},
		},
		"without a TPM the host key": {
			machine: machine{opens: map[string]bool{recovery: true}, bundle: recovery}, want: &spec.State{Encrypt: "tpm2", WithoutTPM: "host-key"}, header: fresh,
			done: []string{key(recovery), enroll + "--password --wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null cryptenroll.new-passphrase=host key 1"}, info: Info{Opened: Recovery},
		},
		"the host key opens it": {
			machine: machine{opens: map[string]bool{"host key": true}, host: &host{key: "host key"}}, want: hosted, header: locked,
			done: []string{key("host key")}, info: Info{Opened: "host-key"},
		},
		"the host key is lost": {
			machine: machine{opens: map[string]bool{recovery: true}, bundle: recovery, host: &host{key: "another"}}, want: hosted, header: locked,
			done: []string{key("another"), key(recovery), enroll + "--password --wipe-slot=tpm2,1 --unlock-key-file=<" + recovery + "> /dev/null cryptenroll.new-passphrase=host key 1"},
			info: Info{Opened: Recovery}, said: "was the boot medium or the mainboard exchanged?",
		},
		"the medium of the host key cannot be read": {
			machine: machine{opens: map[string]bool{recovery: true}, bundle: recovery, host: &host{err: errors.New("it is read-only")}}, want: hosted, header: locked,
			done: []string{key(recovery), enroll + "--password --wipe-slot=tpm2,1 --unlock-key-file=<" + recovery + "> /dev/null cryptenroll.new-passphrase=host key 1"},
			info: Info{Opened: Recovery}, said: "it is read-only",
		},
		"a TPM in the place of a passphrase": {
			machine: machine{opens: map[string]bool{passphrase: true}, tpm: true, answers: []string{passphrase}}, want: byChip, header: locked,
			done:  []string{key(passphrase), toTPM(keys) + "--wipe-slot=tpm2,1 --unlock-key-file=<" + passphrase + "> /dev/null"},
			asked: []string{"Passphrase, or recovery key, of the state of edge-01:"}, info: Info{Opened: "passphrase"},
		},
		"new, with Secure Boot off: an image that is signed gets no slot that opens to everybody": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, bundle: recovery, start: Start{Keys: keys}}, want: byChip, header: fresh,
			done: []string{key(recovery)}, info: Info{Opened: Recovery}, warning: "Secure Boot is off: the TPM would open the state to whatever somebody starts here",
		},
		"Secure Boot was switched off: the recovery key opens it, and the slot for Secure Boot stays": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, answers: []string{recovery}, start: Start{Keys: before}}, want: byChip, header: sealed,
			done: []string{asTPM, key(recovery)}, asked: []string{"Recovery key of the state of edge-01:"}, info: Info{Opened: Recovery},
			said: "Secure Boot is off; switch it on in the machine's setup", warning: "and gets no key",
		},
		"somebody else has changed the firmware's keys: the recovery key is asked for once": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, answers: []string{recovery}}, want: byChip,
			header: luks.Header{Slots: []int{0, 1}, Tokens: []luks.Token{bound(1, before, false)}},
			done:   []string{asTPM, key(recovery), toTPM(keys) + "--wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null"},
			asked:  []string{"Recovery key of the state of edge-01:"}, info: Info{Opened: Recovery}, said: "the firmware's keys for Secure Boot are others",
		},
		"we have changed them: the slot that was made before opens it, and the old one goes": {
			machine: machine{opens: map[string]bool{"tpm2": true}, tpm: true}, want: byChip,
			header: luks.Header{Slots: []int{0, 1, 2}, Tokens: []luks.Token{bound(1, before, false), bound(2, keys, false)}},
			done:   []string{asTPM, enroll + "--wipe-slot=1 /dev/null"}, info: Info{Opened: "tpm2"},
		},
		"words from outside: the recovery key opens it, and the slot stays as it is": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, answers: []string{recovery}, start: Start{SecureBoot: true, Words: words}}, want: byChip, header: sealed,
			done: []string{asTPM, key(recovery)}, asked: []string{"Recovery key of the state of edge-01:"}, info: Info{Opened: Recovery},
			said: "something from outside of the image was measured (PCR 12)",
		},
		"a power cut left a host key beside the TPM": {
			machine: machine{opens: map[string]bool{"tpm2": true}, tpm: true, host: &host{key: "host key"}}, want: byChip,
			header: luks.Header{Slots: []int{0, 1, 2}, Tokens: []luks.Token{bound(2, keys, false)}},
			done:   []string{asTPM, enroll + "--wipe-slot=1 /dev/null"}, info: Info{Opened: "tpm2"},
		},
		"a power cut left a TPM beside the host key": {
			machine: machine{opens: map[string]bool{"host key": true}, tpm: true, host: &host{key: "host key"}}, want: hosted,
			header: luks.Header{Slots: []int{0, 1, 2}, Tokens: []luks.Token{bound(2, before, false)}},
			done:   []string{asTPM, key("host key"), enroll + "--wipe-slot=2 /dev/null"}, info: Info{Opened: "host-key"}, said: "the firmware's keys for Secure Boot are others",
		},
		"the TPM was switched off, and a host key may do without one: it gets none": {
			machine: machine{opens: map[string]bool{recovery: true}, answers: []string{recovery}}, want: &spec.State{Encrypt: "tpm2", WithoutTPM: "host-key"}, header: sealed,
			done: []string{key(recovery)}, asked: []string{"Recovery key of the state of edge-01:"}, info: Info{Opened: Recovery},
			said: "this machine has none that works", warning: "what opens it stays as it is until the TPM is back",
		},
		"an image that is not signed, on state that is bound to signed ones": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, answers: []string{recovery}}, want: byChip, header: sealed, unsigned: true,
			done: []string{asTPM, key(recovery)}, asked: []string{"Recovery key of the state of edge-01:"}, info: Info{Opened: Recovery},
			warning: "this image has no signature of PCR 11: what opens the state stays as it is",
		},
		"new, with a PIN": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, bundle: recovery, answers: []string{"12345", pin, pin}}, want: pinned, header: fresh,
			done: []string{key(recovery), toTPM(keys) + "--tpm2-with-pin=yes --wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null cryptenroll.new-tpm2-pin=" + pin},
			asked: []string{"New PIN for the state of edge-01, at least 6 characters:", "That is too short. New PIN for the state of edge-01, at least 6 characters:",
				"The same once more:"},
			info: Info{Opened: Recovery},
		},
		"the PIN opens it": {
			machine: machine{opens: map[string]bool{"tpm2 PIN=" + pin: true}, tpm: true, answers: []string{"000000", pin}}, want: pinned,
			header: luks.Header{Slots: []int{0, 1}, Tokens: []luks.Token{bound(1, keys, true)}},
			done:   []string{asTPM + " PIN=000000", asTPM + " PIN=" + pin},
			asked:  []string{"PIN, or recovery key, of the state of edge-01:", "That does not open it. PIN, or recovery key, of the state of edge-01:"},
			info:   Info{Opened: "tpm2-pin"}, said: "After a few wrong PINs the TPM takes none for a while",
		},
		"the PIN was forgotten: another takes its place": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, answers: []string{recovery, pin, pin}}, want: pinned,
			header: luks.Header{Slots: []int{0, 1}, Tokens: []luks.Token{bound(1, keys, true)}},
			done: []string{key(recovery), enroll + "--wipe-slot=1 /dev/null",
				toTPM(keys) + "--tpm2-with-pin=yes --wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null cryptenroll.new-tpm2-pin=" + pin},
			asked: []string{"PIN, or recovery key, of the state of edge-01:", "New PIN for the state of edge-01, at least 6 characters:", "The same once more:"},
			info:  Info{Opened: Recovery},
		},
		"a PIN that cannot help is not asked for": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, answers: []string{recovery}, start: Start{Keys: before}}, want: pinned,
			header: luks.Header{Slots: []int{0, 1}, Tokens: []luks.Token{bound(1, keys, true)}},
			done:   []string{key(recovery)}, asked: []string{"Recovery key of the state of edge-01:"}, info: Info{Opened: Recovery},
			said: "Secure Boot is off", warning: "and gets no key",
		},
		"a PIN is wanted from now on": {
			machine: machine{opens: map[string]bool{"tpm2": true}, tpm: true, answers: []string{pin, pin}}, want: pinned, header: sealed,
			done:  []string{asTPM, toTPM(keys) + "--tpm2-with-pin=yes --wipe-slot=tpm2 --unlock-tpm2-device=auto /dev/null cryptenroll.new-tpm2-pin=" + pin},
			asked: []string{"New PIN for the state of edge-01, at least 6 characters:", "The same once more:"}, info: Info{Opened: "tpm2"},
		},
		"no PIN is wanted any more": {
			machine: machine{opens: map[string]bool{"tpm2 PIN=" + pin: true}, tpm: true, answers: []string{pin}}, want: byChip,
			header: luks.Header{Slots: []int{0, 1}, Tokens: []luks.Token{bound(1, keys, true)}},
			done:   []string{asTPM + " PIN=" + pin, toTPM(keys) + "--wipe-slot=tpm2 --unlock-tpm2-device=auto /dev/null cryptenroll.tpm2-pin=" + pin},
			asked:  []string{"PIN, or recovery key, of the state of edge-01:"}, info: Info{Opened: "tpm2-pin"},
		},
		"nobody asks for encryption any more": {
			machine: machine{opens: map[string]bool{"tpm2": true}, tpm: true}, header: sealed, unsigned: true,
			done: []string{asTPM}, info: Info{Opened: "tpm2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := tc.machine
			m.t = t
			info, warning, err := m.options(tc.want, !tc.unsigned).Open(context.Background(), "/dev/null", tc.header)
			require.Equal(t, tc.done, m.done)
			require.Equal(t, tc.asked, m.asked)
			require.Contains(t, strings.Join(m.said, "\n"), tc.said)
			for _, d := range m.done {
				require.False(t, strings.Contains(d, "NEWPASSWORD") || strings.Contains(d, "NEWPIN"), "no key is in the environment")
			}
			for _, s := range m.said {
				require.NotContains(t, s, passphrase)
				require.NotContains(t, s, recovery)
				require.NotContains(t, s, pin)
			}
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.info.Opened, info.Opened)
			if tc.warning == "" {
				require.Empty(t, warning)
			}
			require.Contains(t, warning, tc.warning)
		})
	}
}

func TestWhatOpensItTheNextTimeIsSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		header luks.Header
		want   Info
	}{
		"nothing but the recovery key":  {luks.Header{Slots: []int{0}}, Info{Opened: Recovery, Next: Recovery}},
		"a TPM":                         {luks.Header{Slots: []int{0, 1}, Tokens: []luks.Token{unsealed(1)}}, Info{Opened: Recovery, Next: "tpm2"}},
		"a TPM that looks at the image": {luks.Header{Slots: []int{0, 1}, Tokens: []luks.Token{bound(1, keys, false)}}, Info{Opened: Recovery, Next: "tpm2", Policy: "PCR 7, PCR 12, signed PCR 11"}},
		"a TPM and a PIN":               {luks.Header{Slots: []int{0, 1}, Tokens: []luks.Token{bound(1, keys, true)}}, Info{Opened: Recovery, Next: "tpm2-pin", Policy: "PCR 7, PCR 12, signed PCR 11"}},
		"a TPM for other keys":          {luks.Header{Slots: []int{0, 1}, Tokens: []luks.Token{bound(1, before, false)}}, Info{Opened: Recovery, Next: Recovery}},
		"a passphrase":                  {luks.Header{Slots: []int{0, 3}}, Info{Opened: Recovery, Next: "passphrase"}},
	} {
		m := machine{t: t, opens: map[string]bool{recovery: true}, answers: []string{recovery}}
		info, _, err := m.options(nil, true).Open(context.Background(), "/dev/null", tc.header)
		require.NoError(t, err, name)
		require.Equal(t, tc.want, info, name)
	}
}

func TestAPartitionIsMadeWithTheRecoveryKeyOrNotAtAll(t *testing.T) {
	for name, tc := range map[string]struct {
		machine machine
		want    spec.State
		err     string
	}{
		"a TPM and a bundle":            {machine{tpm: true, bundle: recovery}, spec.State{Encrypt: "tpm2"}, ""},
		"no bundle":                     {machine{tpm: true}, spec.State{Encrypt: "tpm2"}, "it is to be encrypted, and the recovery key is in this node's bundle: none came with the machine"},
		"no TPM":                        {machine{bundle: recovery}, spec.State{Encrypt: "tpm2"}, "no TPM 2.0 that works"},
		"no TPM, and that is no matter": {machine{bundle: recovery}, spec.State{Encrypt: "tpm2", WithoutTPM: "passphrase"}, ""},
		"a PIN":                         {machine{tpm: true, bundle: recovery}, spec.State{Encrypt: "tpm2-pin"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := tc.machine
			m.t = t
			k, err := m.options(&tc.want, false).NewKey(context.Background())
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			data, err := os.ReadFile(k.File)
			require.NoError(t, err)
			require.Equal(t, recovery, string(data), "without a line end, as it is typed")
			k.Discard()
		})
	}
}

func TestNoStateIsMadeThatTheTPMWouldOpenToEverybody(t *testing.T) {
	for name, tc := range map[string]struct {
		start  Start
		signed bool
		err    string
	}{
		"Secure Boot, signed":     {Start{SecureBoot: true, Keys: keys}, true, ""},
		"no Secure Boot, signed":  {Start{Keys: keys}, true, "Secure Boot is off"},
		"no Secure Boot, no key":  {Start{Keys: keys}, false, ""},
		"Secure Boot, and no key": {Start{SecureBoot: true, Keys: keys}, false, ""},
	} {
		m := machine{t: t, tpm: true, bundle: recovery, start: tc.start}
		k, err := m.options(&spec.State{Encrypt: "tpm2"}, tc.signed).NewKey(context.Background())
		if tc.err != "" {
			require.ErrorContains(t, err, tc.err, name)
			continue
		}
		require.NoError(t, err, name)
		k.Discard()
	}
}

func TestASlotIsMadeForKeysThatAreAboutToCome(t *testing.T) {
	next := tpm.Digest{7: 3}
	header := func(tokens ...luks.Token) luks.Header { return luks.Header{Slots: []int{0, 1, 2}, Tokens: tokens} }
	for name, tc := range map[string]struct {
		header luks.Header
		start  Start
		done   []string
		err    string
	}{
		"beside the one for now":         {header(bound(1, keys, false)), Start{}, []string{strings.TrimSuffix(toTPM(next), " ") + " --unlock-key-file=<" + recovery + "> /dev/null"}, ""},
		"it is there":                    {header(bound(1, keys, false), bound(2, next, false)), Start{}, nil, ""},
		"no TPM opens the state":         {luks.Header{Slots: []int{0}}, Start{}, nil, "no TPM opens the state"},
		"a TPM that looks at nothing":    {header(unsealed(1)), Start{}, nil, "no TPM opens the state"},
		"the slot is not for this start": {header(bound(1, before, false)), Start{}, nil, "no TPM opens the state"},
		"with Secure Boot off":           {header(bound(1, keys, false)), Start{Keys: keys}, nil, "no TPM opens the state"},
		"a PIN that nobody is there for": {header(bound(1, keys, true)), Start{}, nil, "the recovery key will be asked for once"},
	} {
		m := machine{t: t, tpm: true, start: tc.start}
		err := m.options(&spec.State{Encrypt: "tpm2"}, true).Expect(context.Background(), "/dev/null", tc.header, next, recovery)
		require.Equal(t, tc.done, m.done, name)
		if tc.err != "" {
			require.ErrorContains(t, err, tc.err, name)
			continue
		}
		require.NoError(t, err, name)
	}
}

func TestARecoveryKeyMayBeTypedWithoutHyphens(t *testing.T) {
	for text, ok := range map[string]bool{
		recovery: true, strings.ReplaceAll(recovery, "-", " "): true, strings.ToUpper(recovery): true, recovery[1:]: false, recovery + "c": false, "a" + recovery[1:]: false, "": false,
	} {
		got, is := normalRecovery(text)
		require.Equal(t, ok, is, text)
		if ok {
			require.Equal(t, recovery, got)
		}
	}
}

func TestKeysThatARunLeftAreRemoved(t *testing.T) {
	m := machine{t: t, tpm: true, bundle: recovery}
	o := m.options(&spec.State{Encrypt: "tpm2"}, false)
	_, err := o.NewKey(context.Background())
	require.NoError(t, err)
	o.Clean()
	left, err := os.ReadDir(o.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func FuzzNormalRecovery(f *testing.F) {
	f.Add(recovery)
	f.Fuzz(func(t *testing.T, text string) {
		if got, ok := normalRecovery(text); ok {
			again, ok := normalRecovery(got)
			require.True(t, ok)
			require.Equal(t, got, again)
		}
	})
}

// A stub that fails after it has measured leaves PCR 11 as nobody signed it, and then another image is started.
func TestAStartThatAnotherImageHasSpoiledIsRestartedAndNobodyIsAsked(t *testing.T) {
	byChip, pinned := &spec.State{Encrypt: spec.EncryptTPM}, &spec.State{Encrypt: spec.EncryptTPMPIN}
	header := func(t luks.Token) luks.Header { return luks.Header{Slots: []int{0, 1}, Tokens: []luks.Token{t}} }
	for name, tt := range map[string]struct {
		want     *spec.State
		token    luks.Token
		opens    string
		clean    bool
		restart  error
		restarts int
		asked    []string
		said     string
	}{
		"the TPM":                 {want: byChip, token: bound(1, keys, false), restarts: 1, said: "Restarting the machine"},
		"the TPM with a PIN":      {want: pinned, token: bound(1, keys, true), restarts: 1, said: "Restarting the machine"},
		"the TPM opens it":        {want: byChip, token: bound(1, keys, false), opens: "tpm2"},
		"nothing was measured":    {want: byChip, token: bound(1, keys, false), clean: true, asked: []string{"Recovery key of the state of edge-01:"}},
		"a TPM that opens to all": {want: byChip, token: unsealed(1), asked: []string{"Recovery key of the state of edge-01:"}},
		"the machine cannot be restarted": {
			want: byChip, token: bound(1, keys, false), restart: errors.New("systemd does not answer"), restarts: 1,
			asked: []string{"Recovery key of the state of edge-01:"}, said: "the machine does not restart: systemd does not answer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine{t: t, tpm: true, opens: map[string]bool{tt.opens: true}}
			o := m.options(tt.want, true)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			restarts := 0
			o.Spoiled = func() bool { return !tt.clean }
			o.Restart = func(context.Context) error {
				restarts++
				if tt.restart == nil {
					stop() // As systemd ends the unit.
				}
				return tt.restart
			}
			_, _, err := o.Open(ctx, "/dev/null", header(tt.token))
			require.Equal(t, tt.restarts, restarts)
			require.Equal(t, tt.asked, m.asked)
			require.Contains(t, strings.Join(m.said, "\n"), tt.said)
			switch {
			case tt.opens != "":
				require.NoError(t, err)
			case tt.asked == nil:
				require.ErrorContains(t, err, "the machine is restarted")
			default:
				require.ErrorContains(t, err, "nobody is there")
			}
		})
	}
}
