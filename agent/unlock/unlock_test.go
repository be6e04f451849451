package unlock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/luks"
	"spore/cluster/spec"
)

const (
	recovery   = "cbdefghi-cbdefghi-cbdefghi-cbdefghi-cbdefghi-cbdefghi-cbdefghi-cbdefghi"
	passphrase = "a long passphrase"
	pem        = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"
)

// machine stands for the partition, the machine and the person before it.
type machine struct {
	t *testing.T
	// opens says what opens the partition: tpm2, or a key's text.
	opens map[string]bool
	tpm   bool
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
	keys := filepath.Join(dir, "keys")
	m.t.Cleanup(func() {
		left, err := os.ReadDir(keys)
		if err == nil {
			require.Empty(m.t, left, "no key stays in a file")
		}
	})
	return &Options{
		Want: want, Node: "edge-01", PublicKey: public, Dir: keys, Host: m.host,
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
	for _, a := range append(args, m.given(env)...) {
		file := strings.TrimPrefix(a, "--unlock-key-file=")
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
	}
	if !m.opens[key] {
		return errors.New("wrong key")
	}
	return nil
}

// given shows what an environment leads to; it never holds a key itself.
func (m *machine) given(env []string) (out []string) {
	for _, e := range env {
		for _, key := range []string{recovery, passphrase, "host key"} {
			require.NotContains(m.t, e, key, "a key is in an environment")
		}
		dir, ok := strings.CutPrefix(e, "CREDENTIALS_DIRECTORY=")
		require.True(m.t, ok, e)
		files, err := os.ReadDir(dir)
		require.NoError(m.t, err)
		for _, path := range []string{dir, filepath.Join(dir, files[0].Name())} {
			st, err := os.Stat(path)
			require.NoError(m.t, err)
			require.Zero(m.t, st.Mode().Perm()&0o077, "others can read %s", path)
		}
		for _, f := range files {
			data, err := os.ReadFile(filepath.Join(dir, f.Name()))
			require.NoError(m.t, err)
			out = append(out, f.Name()+"="+string(data))
		}
	}
	return out
}

func tpmToken(slot int, public string) luks.Token {
	t := luks.Token{Type: luks.TokenTPM, Slots: []int{slot}}
	if public != "" {
		t.PublicKey = []byte(public)
	}
	return t
}

const (
	attach = "systemd-cryptsetup attach spore-state /dev/null "
	byTPM  = attach + "- luks,headless=true,tpm2-device=auto,token-timeout=10s"
	byKey  = attach + "<%s> luks,headless=true,tries=1"
	enroll = "systemd-cryptenroll "
	toTPM  = enroll + "--tpm2-device=auto --tpm2-pcrs= --tpm2-pcrlock= "
	signed = "--tpm2-public-key=public.pem --tpm2-public-key-pcrs=11 "
)

func key(k string) string { return fmt.Sprintf(byKey, k) }

func TestOpen(t *testing.T) {
	tpm := &spec.State{Encrypt: spec.EncryptTPM, WithoutTPM: spec.RefuseWithoutTPM}
	phrase, hosted := &spec.State{Encrypt: spec.EncryptPassphrase}, &spec.State{Encrypt: spec.EncryptHostKey}
	fresh := luks.Header{Slots: []int{0}}
	sealed := luks.Header{Slots: []int{0, 1}, Tokens: []luks.Token{tpmToken(1, pem)}}
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
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, bundle: recovery}, want: tpm, header: fresh,
			done: []string{key(recovery), toTPM + signed + "--wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null"},
			info: Info{Opened: Recovery},
		},
		"new, with an image that nobody signed": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, bundle: recovery}, want: tpm, header: fresh, unsigned: true,
			done: []string{key(recovery), toTPM + "--wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null"},
			info: Info{Opened: Recovery}, said: "the image has no signature of PCR 11",
		},
		"the TPM opens it with nobody there": {
			machine: machine{opens: map[string]bool{"tpm2": true}, tpm: true}, want: tpm, header: sealed,
			done: []string{byTPM}, info: Info{Opened: "tpm2"},
		},
		"the image was signed since": {
			machine: machine{opens: map[string]bool{"tpm2": true}, tpm: true}, want: tpm, header: luks.Header{Slots: []int{0, 1}, Tokens: []luks.Token{tpmToken(1, "")}},
			done: []string{byTPM, toTPM + signed + "--wipe-slot=tpm2 --unlock-tpm2-device=auto /dev/null"}, info: Info{Opened: "tpm2"},
		},
		"the TPM was cleared: the console takes the recovery key, and the TPM gets a new slot": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, answers: []string{"wrong", strings.ToUpper(strings.ReplaceAll(recovery, "-", ""))}}, want: tpm, header: sealed,
			done: []string{byTPM, key("wrong"), key(recovery), enroll + "--wipe-slot=tpm2 /dev/null",
				toTPM + signed + "--wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null"},
			asked: []string{"Recovery key of the state of edge-01:", "That does not open it. Recovery key of the state of edge-01:"},
			info:  Info{Opened: Recovery}, said: "what was typed does not open the state; nothing was changed",
		},
		"the TPM was cleared, and a bundle was delivered again": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, bundle: recovery}, want: tpm, header: sealed,
			done: []string{byTPM, key(recovery), enroll + "--wipe-slot=tpm2 /dev/null", toTPM + signed + "--wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null"},
			info: Info{Opened: Recovery}, said: "was it cleared",
		},
		"the bundle is of another node, and nobody is at the console": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, bundle: "another"}, want: tpm, header: fresh,
			done: []string{key("another")}, asked: []string{"Recovery key of the state of edge-01:"},
			said: "the recovery key of the bundle that came with the machine does not open the state", err: "nobody could be asked for its recovery key: nobody is there",
		},
		"the TPM is gone": {
			machine: machine{opens: map[string]bool{recovery: true}, answers: []string{recovery}}, want: tpm, header: sealed,
			done: []string{key(recovery)}, asked: []string{"Recovery key of the state of edge-01:"}, info: Info{Opened: Recovery},
			said: "this machine has none that works", warning: "the configuration wants the TPM to open the state, and this machine has no TPM 2.0 that works",
		},
		"the TPM does not seal": {
			machine: machine{opens: map[string]bool{recovery: true}, tpm: true, bundle: recovery, fails: "cryptenroll"}, want: tpm, header: fresh, unsigned: true,
			done: []string{key(recovery), toTPM + "--wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null"},
			info: Info{Opened: Recovery}, warning: "could not be changed: it fails",
		},
		"a new passphrase is asked for twice": {
			machine: machine{opens: map[string]bool{recovery: true}, bundle: recovery, answers: []string{"short", recovery, passphrase, "another one that is long", passphrase, passphrase}}, want: phrase, header: fresh,
			done: []string{key(recovery), enroll + "--password --wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null " + newPassphrase + "=" + passphrase},
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
			done:  []string{key(recovery), enroll + "--password --wipe-slot=tpm2,1 --unlock-key-file=<" + recovery + "> /dev/null " + newPassphrase + "=" + passphrase},
			asked: []string{"Passphrase, or recovery key, of the state of edge-01:", "New passphrase for the state of edge-01, at least 12 characters:", "The same once more:"},
			info:  Info{Opened: Recovery},
		},
		"a bundle that was delivered again asks for no other passphrase": {
			machine: machine{opens: map[string]bool{recovery: true}, bundle: recovery}, want: phrase, header: locked,
			done: []string{key(recovery)}, info: Info{Opened: Recovery},
		},
		"without a TPM the host key": {
			machine: machine{opens: map[string]bool{recovery: true}, bundle: recovery}, want: &spec.State{Encrypt: "tpm2", WithoutTPM: "host-key"}, header: fresh,
			done: []string{key(recovery), enroll + "--password --wipe-slot=tpm2 --unlock-key-file=<" + recovery + "> /dev/null " + newPassphrase + "=host key 1"}, info: Info{Opened: Recovery},
		},
		"the host key opens it": {
			machine: machine{opens: map[string]bool{"host key": true}, host: &host{key: "host key"}}, want: hosted, header: locked,
			done: []string{key("host key")}, info: Info{Opened: "host-key"},
		},
		"the host key is lost": {
			machine: machine{opens: map[string]bool{recovery: true}, bundle: recovery, host: &host{key: "another"}}, want: hosted, header: locked,
			done: []string{key("another"), key(recovery), enroll + "--password --wipe-slot=tpm2,1 --unlock-key-file=<" + recovery + "> /dev/null " + newPassphrase + "=host key 1"},
			info: Info{Opened: Recovery}, said: "was the boot medium or the mainboard exchanged?",
		},
		"the medium of the host key cannot be read": {
			machine: machine{opens: map[string]bool{recovery: true}, bundle: recovery, host: &host{err: errors.New("it is read-only")}}, want: hosted, header: locked,
			done: []string{key(recovery), enroll + "--password --wipe-slot=tpm2,1 --unlock-key-file=<" + recovery + "> /dev/null " + newPassphrase + "=host key 1"},
			info: Info{Opened: Recovery}, said: "it is read-only",
		},
		"a TPM in the place of a passphrase": {
			machine: machine{opens: map[string]bool{passphrase: true}, tpm: true, answers: []string{passphrase}}, want: tpm, header: locked,
			done:  []string{key(passphrase), toTPM + signed + "--wipe-slot=tpm2,1 --unlock-key-file=<" + passphrase + "> /dev/null"},
			asked: []string{"Passphrase, or recovery key, of the state of edge-01:"}, info: Info{Opened: "passphrase"},
		},
		"nobody asks for encryption any more": {
			machine: machine{opens: map[string]bool{"tpm2": true}, tpm: true}, header: sealed, unsigned: true,
			done: []string{byTPM}, info: Info{Opened: "tpm2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := tc.machine
			m.t = t
			info, warning, err := m.options(tc.want, !tc.unsigned).Open(context.Background(), "/dev/null", tc.header)
			require.Equal(t, tc.done, m.done)
			require.Equal(t, tc.asked, m.asked)
			require.Contains(t, strings.Join(m.said, "\n"), tc.said)
			for _, s := range m.said {
				require.NotContains(t, s, passphrase)
				require.NotContains(t, s, recovery)
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
		"a TPM":                         {luks.Header{Slots: []int{0, 1}, Tokens: []luks.Token{tpmToken(1, "")}}, Info{Opened: Recovery, Next: "tpm2"}},
		"a TPM that looks at the image": {luks.Header{Slots: []int{0, 1}, Tokens: []luks.Token{tpmToken(1, pem)}}, Info{Opened: Recovery, Next: "tpm2", Policy: "signed PCR 11"}},
		"a passphrase":                  {luks.Header{Slots: []int{0, 3}}, Info{Opened: Recovery, Next: "passphrase"}},
	} {
		m := machine{t: t, opens: map[string]bool{recovery: true}, answers: []string{recovery}}
		info, _, err := m.options(nil, false).Open(context.Background(), "/dev/null", tc.header)
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
