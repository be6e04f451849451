package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/agent/activate"
	"spore/agent/atomicfile"
	"spore/agent/bootinfo"
	"spore/agent/clusterpart"
	"spore/agent/config/live"
	"spore/agent/delivery"
	"spore/agent/medium"
	"spore/agent/paths"
	"spore/agent/renewal"
	"spore/agent/sealed"
	"spore/agent/secrets"
	"spore/agent/state"
	"spore/agent/wait"
	"spore/cluster/facts"
	"spore/pki"
	"spore/pki/bundle"
	"spore/pki/reissue"
	"spore/pki/seal"
	"spore/services"
)

// tpmBound is the longest wait for the device of a TPM that the firmware announces.
const tpmBound = 10 * time.Second

// leavesName is the name that the file of re-issued certificates is sealed under.
const leavesName = "spore.leaves"

// recoveryKey is the entry of the bundle that opens encrypted state.
const recoveryKey = "state-recovery-key"

// bundleInfo is the content of paths.BundleInfo.
type bundleInfo struct {
	delivery.Info
	// Delivery is the part of Problem that is of the bundle and not of its certificates.
	Delivery string `json:"delivery,omitempty"`
}

// taker is what the steps of the bundle work with.
type taker struct {
	m       *machine
	cluster *facts.Cluster
	node    *facts.Node
	trust   clusterpart.Authorities
	// vault is nil when nothing lasts on this machine, and noVault says why.
	vault   *sealed.Vault
	noVault string
	in      delivery.Input
	// said is the problem that was said last.
	said string
	// renews says that the node is up and the certificates of its bundle are looked at again; ask, when not nil, asks other nodes
	// for those that this one cannot make.
	renews bool
	asks   func(ctx context.Context, agent pki.Certificate, trusted map[string]string, leaves []pki.Leaf) (map[string]pki.Certificate, map[string]error, error)
}

// bundleCommand takes the node's bundle and lays out its secrets; with --ask it asks for the passphrase of one that has one.
func bundleCommand(ctx context.Context, m *machine, args []string) error {
	ask := len(args) == 1 && args[0] == "--ask"
	if len(args) > 0 && !ask {
		return usageError{"usage: spore-agent bundle [--ask]"}
	}
	m.readBoot()
	err := runBundle(ctx, m, ask)
	if err == nil {
		return nil
	}
	// So that roles that are held for it say why.
	info := bundleInfo{Info: delivery.Info{Problem: "the bundle could not be taken: " + err.Error()}}
	return errors.Join(err, atomicfile.WriteJSON(m.root.At(paths.BundleInfo), info))
}

func runBundle(ctx context.Context, m *machine, ask bool) error {
	t, err := newTaker(m)
	if err != nil || t == nil {
		return err
	}
	defer m.record("bundle")
	if ask {
		return t.ask(ctx)
	}
	_, err = t.take(ctx)
	return err
}

// newTaker collects what there is; nil on a machine that is no node.
func newTaker(m *machine) (*taker, error) {
	id, err := m.identity()
	if err != nil || !id.Known() {
		return nil, err
	}
	t := &taker{m: m}
	if t.cluster, err = m.part.Cluster(); err != nil {
		return nil, err
	}
	// As it was compiled: the names in certificates are those of the configuration.
	if t.node, err = m.part.Node(id.Node); err != nil {
		return nil, err
	}
	if t.trust, err = m.part.Authorities(); err != nil {
		return nil, err
	}
	t.findVault()
	t.in = delivery.Input{
		Whose: bundle.Whose{Cluster: t.cluster.ID, Node: t.node.Name},
		Knows: func(b *bundle.Bundle, authority, keyID string) (bool, error) {
			trust, err := t.trusts(b)
			return trust.Knows(authority, keyID), err
		},
		Taken: m.root.At(paths.BundleTaken), NoVault: t.noVault, Say: m.say,
	}
	if t.vault != nil {
		t.in.Vault = bundleVault{t.vault, m.root}
	}
	if m.boot.ESP != "" {
		t.in.Medium = medium.ESP{Device: m.boot.ESP, Dir: m.root.At(paths.ESP), Mount: medium.Mount, Unmount: medium.Unmount}
	}
	if t.in.Whose.Keys, err = m.signingKeys(t.cluster); err != nil {
		return nil, err
	}
	return t, t.collect()
}

// signingKeys are those that may have signed the cluster's bundles.
func (m *machine) signingKeys(c *facts.Cluster) (out []ed25519.PublicKey, err error) {
	for _, text := range c.SigningKeys {
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, errors.New("the cluster part has a signing key that is none; build the image again")
		}
		out = append(out, key)
	}
	return out, nil
}

// findVault tells whether what is sealed would last.
func (t *taker) findVault() {
	var info state.Info
	if err := atomicfile.ReadJSON(t.m.root.At(paths.State), &info); err != nil {
		info.Warning = "it is not known what /var is: " + err.Error()
	}
	if info.Kind != state.Partition {
		t.noVault = "/var does not last: " + info.Warning
		return
	}
	machineID, _ := os.ReadFile(t.m.root.At("/etc/machine-id"))
	t.vault = &sealed.Vault{
		Creds: runCreds, HasTPM: t.m.hasTPM, AwaitTPM: t.m.awaitTPM, MachineID: string(machineID), HostKey: t.m.root.At(paths.HostKey),
		Fleeting: strings.HasPrefix(t.m.boot.MachineIDFrom, bootinfo.FromChance), Say: t.m.say,
	}
	if info.Encryption != nil && !t.vault.Fleeting {
		// The host key lies behind the same lock. Sealed to the TPM, the secrets would be lost with it, when the recovery key has
		// brought back all the rest.
		t.vault.HasTPM = func(context.Context) bool { return false }
	}
}

// collect reads what was delivered.
func (t *taker) collect() error {
	if err := t.add(delivery.Medium, t.m.root.At(bootinfo.Delivered)); err != nil {
		return err
	}
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		return t.add(delivery.Firmware, filepath.Join(dir, delivery.CredentialName))
	}
	return nil
}

// add reads one delivered bundle, if it is there.
func (t *taker) add(from, path string) error {
	data, err := atomicfile.ReadLimited(path, bootinfo.MaxDelivered)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read a delivered bundle: %w", err)
	}
	t.in.Delivered = append(t.in.Delivered, delivery.Delivered{From: from, Data: data, Opened: t.opened(data)})
	return nil
}

// opened is what somebody has opened a delivered bundle to in this boot already, so that nobody is asked twice.
func (t *taker) opened(data []byte) []byte {
	kept, err := atomicfile.ReadLimited(t.m.root.At(paths.BundleOpened), bootinfo.MaxDelivered+sha256.Size)
	sum := sha256.Sum256(data)
	if err != nil || !bytes.HasPrefix(kept, sum[:]) {
		return nil
	}
	return kept[sha256.Size:]
}

// deliveredRecoveryKey takes the recovery key of the state out of the bundle that came with the machine. The bundle itself is
// taken when there is a state that it can be kept on.
func (m *machine) deliveredRecoveryKey(ctx context.Context) (string, error) {
	t, err := newTaker(m)
	if err != nil {
		return "", err
	}
	t.in.Vault, t.in.Medium = nil, nil
	for {
		out := delivery.Take(ctx, t.in)
		switch {
		case out.Bundle != nil:
			key := out.Bundle.Secrets[recoveryKey]
			if key == "" {
				return "", errors.New("it has none; make a new one with `spore pki bundle --node " + t.node.Name + "`")
			}
			return key, nil
		case out.Ask == nil && len(t.in.Delivered) == 0:
			return "", fmt.Errorf("none came with the machine: bring it on the boot medium (`spore flash --node %s`) or by the firmware", t.node.Name)
		case out.Ask == nil:
			return "", errors.New(out.Info.Problem)
		}
		if err := t.open(ctx, out.Ask); err != nil {
			return "", err
		}
		if out.Ask.Opened != nil {
			sum := sha256.Sum256(out.Ask.Data)
			if _, err := atomicfile.Write(m.root.At(paths.BundleOpened), append(sum[:], out.Ask.Opened...), 0o600); err != nil {
				return "", err
			}
		}
	}
}

// take takes the bundle and lays out what came of it.
func (t *taker) take(ctx context.Context) (delivery.Outcome, error) {
	out := delivery.Take(ctx, t.in)
	if out.Removed {
		if err := os.RemoveAll(filepath.Dir(t.m.root.At(bootinfo.Delivered))); err != nil {
			return out, fmt.Errorf("remove the copy of the boot medium's bundle: %w", err)
		}
	}
	if out.Ask == nil {
		if err := os.Remove(t.m.root.At(paths.BundleOpened)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return out, err
		}
	}
	if t.renews && out.Bundle == nil {
		return out, nil // What lies in memory alone is not looked at again: the next boot brings another one.
	}
	info := bundleInfo{Info: out.Info, Delivery: out.Info.Problem}
	if t.renews {
		info = t.renewed(info)
	}
	trust, err := t.trusts(out.Bundle)
	if err != nil {
		return out, err
	}
	var have map[string]string
	if out.Bundle != nil {
		t.m.raiseClockTo(out.Bundle.Issued)
		entries, problem := t.reissue(ctx, out.Bundle, trust)
		have = maps.Clone(out.Bundle.Secrets)
		maps.Copy(have, entries)
		info.Problem = strings.Join(nonEmpty(info.Delivery, problem), "; ")
	}
	if info.Problem != "" && info.Problem != t.said {
		t.m.say(info.Problem)
	}
	t.said = info.Problem
	if err := t.layOut(out.Bundle, have, trust); err != nil {
		return out, err
	}
	if t.renews {
		return out, atomicfile.WriteJSON(t.m.root.At(paths.BundleInfo), info)
	}
	if out.Ask != nil {
		_, err = atomicfile.Write(t.m.root.At(paths.BundleAsk), nil, 0o600)
	} else if err = os.Remove(t.m.root.At(paths.BundleAsk)); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return out, err
	}
	return out, atomicfile.WriteJSON(t.m.root.At(paths.BundleInfo), info)
}

// renewed is what there is to say of a bundle that is looked at again: what was said of its delivery at the boot stays, since
// only then the boot medium was there, unless it is another bundle.
func (t *taker) renewed(now bundleInfo) bundleInfo {
	var before bundleInfo
	if err := atomicfile.ReadJSON(t.m.root.At(paths.BundleInfo), &before); err == nil && before.Serial == now.Serial {
		now.Delivery, now.From = before.Delivery, before.From
	}
	return now
}

// trusts is whom the node trusts with a bundle: as its image says, or the bundle where that is newer.
func (t *taker) trusts(b *bundle.Bundle) (clusterpart.Authorities, error) {
	if b == nil || len(b.Trust) == 0 || b.Revision <= t.trust.Revision {
		return t.trust, nil
	}
	return clusterpart.NewAuthorities(b.Trust, b.Revision)
}

// layOut puts secrets, certificates and authorities where programs read them, and notes which programs have yet to take what
// is new.
func (t *taker) layOut(b *bundle.Bundle, have map[string]string, trust clusterpart.Authorities) error {
	share, err := pki.ShareOf(t.cluster, t.node)
	if err != nil {
		return err
	}
	others, err := t.layTrust(trust)
	if err != nil {
		return err
	}
	wanted := activate.Secrets(t.cluster, t.node)
	for _, a := range share.Issues { // For nodes that hold none.
		wanted[signerProgram] = append(wanted[signerProgram], a.Key)
	}
	changed, err := secrets.Install(t.m.root.At(paths.Secrets), have, wanted)
	if err != nil {
		return err
	}
	if err := t.layLive(share, have, wanted); err != nil {
		return err
	}
	if err := t.layInbox(); err != nil {
		return err
	}
	if err := readable(filepath.Dir(t.m.root.At(paths.Renewal))); err != nil {
		return err
	}
	plan := renewal.Plan(share, changed, others, renewal.ProgramsOf(t.cluster, t.node))
	return (&renewal.File{Path: t.m.root.At(paths.Renewal)}).Change(func(s *renewal.State) {
		now := renewal.Clock()
		if len(changed) > 0 || len(others) > 0 {
			if s.Changed != 0 { // At the boot, programs start after this.
				s.Add(plan, now)
			}
			s.Changed = now
		}
		s.Serial, s.Revision, s.Ends = 0, trust.Revision, renewal.Ends(share, have)
		if b != nil {
			s.Serial = b.Serial
		}
	})
}

// layTrust writes whom the node trusts. It returns the files that are not as they were.
func (t *taker) layTrust(trust clusterpart.Authorities) (changed []string, err error) {
	dir := t.m.root.At(paths.Trust)
	if err := readable(dir); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(trust.Files)) {
		did, err := atomicfile.Write(filepath.Join(dir, name), []byte(trust.Files[name]), 0o644)
		if err != nil {
			return nil, err
		}
		if did {
			changed = append(changed, name)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if _, ok := trust.Files[e.Name()]; ok {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
		changed = append(changed, e.Name())
	}
	return changed, nil
}

// readable makes a folder that every program may read: the unit's UMask= would keep all but root's out.
func readable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// layInbox makes the folder in which the API's server leaves a bundle that the operator sends.
func (t *taker) layInbox() error {
	row, _ := services.LookupProgram(apiProgram)
	group, err := t.m.group(row.User)
	if err != nil {
		return fmt.Errorf("make the folder for bundles that are sent: %w", err)
	}
	dir := t.m.root.At(paths.Inbox)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if group != os.Getgid() {
		if err := os.Chown(dir, -1, group); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o770)
}

// layLive lays out the certificates of programs that read them again while they run.
func (t *taker) layLive(share pki.Share, have map[string]string, wanted map[string][]string) error {
	dir, leaves, laid := t.m.root.At(paths.Live), renewal.Entries(share), map[string]bool{}
	for _, program := range slices.Sorted(maps.Keys(wanted)) {
		files := map[string]string{}
		for _, ref := range wanted[program] {
			if text, ok := have[ref]; ok && leaves[ref] {
				files[ref] = text
			}
		}
		row, ok := services.LookupProgram(program)
		if !ok || len(files) == 0 {
			continue
		}
		group, err := t.m.group(row.User)
		if errors.As(err, new(user.UnknownUserError)) {
			continue // The image does not carry the role, which is held.
		}
		if err != nil {
			return fmt.Errorf("lay out the certificates of %s: %w", program, err)
		}
		if _, err := live.Lay(dir, program, group, files); err != nil {
			return err
		}
		laid[program] = true
	}
	return live.Remove(dir, func(program string) bool { return laid[program] })
}

// groupOf is the number of the group of a user of the image.
func groupOf(name string) (int, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(u.Gid)
}

// reissue makes certificates again whose time is over, where the node holds the key of their authority, and keeps them. What
// it returns goes over the bundle's entries.
func (t *taker) reissue(ctx context.Context, b *bundle.Bundle, trust clusterpart.Authorities) (entries map[string]string, problem string) {
	path := t.m.root.At(paths.Leaves)
	var kept map[string]string
	if t.vault != nil {
		data, _, err := t.vault.Open(ctx, path, leavesName)
		if err == nil {
			err = json.Unmarshal(data, &kept)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.m.say(fmt.Sprintf("certificates that were made again are lost: %v", err)) // What is due is made again.
			kept = map[string]string{}
		}
	}
	r, err := reissue.Leaves(reissue.Input{
		Cluster: t.cluster, Node: t.node, Bundle: b.Secrets, Kept: kept, Authorities: trust.Certificates, Now: t.m.now(), Random: rand.Reader,
	})
	if err != nil {
		return nil, fmt.Sprintf("the certificates were not looked at: %v", err)
	}
	for _, c := range r.Made {
		t.m.say(fmt.Sprintf("certificate %s: %s: %s", c.ID, c.Did, c.Why))
	}
	if t.asks != nil {
		agent := pki.Certificate{Certificate: or(r.Entries["agent-certificate"], b.Secrets["agent-certificate"]), Key: pki.Hidden(or(r.Entries["agent-key"], b.Secrets["agent-key"]))}
		r.Ask(kept, func(leaves []pki.Leaf) (map[string]pki.Certificate, map[string]error, error) {
			return t.asks(ctx, agent, trust.Certificates, leaves)
		})
		for _, c := range r.Asked {
			t.m.say(fmt.Sprintf("certificate %s: %s by a master: %s", c.ID, c.Did, c.Why))
		}
	}
	var problems []string
	for _, p := range r.Problems {
		if p.Works {
			t.m.say(p.Err.Error())
		} else {
			problems = append(problems, p.Err.Error())
		}
	}
	if r.Changed && t.vault != nil {
		if err := t.keepLeaves(ctx, path, r.Entries); err != nil {
			problems = append(problems, fmt.Sprintf("certificates that were made again are not kept: %v", err))
		}
	}
	return r.Entries, strings.Join(problems, "; ")
}

func (t *taker) keepLeaves(ctx context.Context, path string, entries map[string]string) error {
	if len(entries) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := json.Marshal(entries)
	if err != nil {
		return fmt.Errorf("internal error: %w", err)
	}
	_, err = t.vault.Seal(ctx, path, leavesName, data)
	return err
}

// ask asks for passphrases until no bundle wants one.
func (t *taker) ask(ctx context.Context) error {
	var before bundleInfo
	if err := atomicfile.ReadJSON(t.m.root.At(paths.BundleInfo), &before); err == nil {
		t.said = before.Problem
	}
	for {
		out, err := t.take(ctx)
		if err != nil || out.Ask == nil {
			return err
		}
		if err := t.open(ctx, out.Ask); err != nil {
			return err
		}
	}
}

// open asks for the passphrase of a delivered bundle until one opens it, or it is known that none will.
func (t *taker) open(ctx context.Context, d *delivery.Delivered) error {
	again := ""
	for d.Opened == nil && d.Err == nil {
		passphrase, err := askPassphrase(ctx, "spore-bundle", fmt.Sprintf("%sPassphrase of the secret bundle of %s:", again, t.node.Name))
		if err != nil {
			return err
		}
		d.Opened, err = seal.OpenOnNode(d.Data, passphrase, bundle.MaxSize)
		if errors.Is(err, seal.ErrPassphrase) {
			t.m.say("the passphrase was wrong")
			again = "That was wrong. "
		} else {
			d.Err = err
		}
	}
	return nil
}

// askPassphrase asks at the console, by systemd's agent there.
func askPassphrase(ctx context.Context, id, prompt string) (string, error) {
	cmd := exec.CommandContext(ctx, "systemd-ask-password", "--no-tty", "--timeout=0", "--id="+id, prompt)
	out, err := output(cmd)
	return strings.TrimSuffix(string(out), "\n"), err
}

// bundleVault is the vault's one file for the bundle.
type bundleVault struct {
	*sealed.Vault
	root paths.Root
}

func (v bundleVault) Open(ctx context.Context) ([]byte, string, error) {
	return v.Vault.Open(ctx, v.root.At(paths.StoredBundle), delivery.CredentialName)
}

func (v bundleVault) Seal(ctx context.Context, data []byte) (string, error) {
	return v.Vault.Seal(ctx, v.root.At(paths.StoredBundle), delivery.CredentialName, data)
}

func (v bundleVault) PutAside() error {
	return os.Rename(v.root.At(paths.StoredBundle), v.root.At(paths.UnopenedBundle))
}

// runCreds runs systemd-creds. Secrets pass through pipes alone, and what it says is on its standard error.
func runCreds(ctx context.Context, input []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "systemd-creds", args...)
	cmd.Stdin = bytes.NewReader(input)
	return output(cmd)
}

// output runs a program and returns what it prints; the last line of its standard error goes into the error.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		text := strings.TrimSpace(stderr.String())
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, text[strings.LastIndexByte(text, '\n')+1:])
	}
	return out, nil
}

// hasTPM asks systemd whether all is there that sealing to a TPM takes.
func (m *machine) hasTPM(ctx context.Context) bool {
	m.awaitTPM(ctx)
	if _, err := os.Stat(m.root.At("/dev/tpmrm0")); err != nil {
		return false
	}
	_, err := runCreds(ctx, nil, "has-tpm2", "--quiet")
	if err != nil {
		m.say("the TPM cannot be used: " + err.Error())
	}
	return err == nil
}

// awaitTPM waits for the device of a TPM that the firmware announces by its ACPI table.
func (m *machine) awaitTPM(ctx context.Context) {
	if _, err := os.Stat(m.root.At("/sys/firmware/acpi/tables/TPM2")); err != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := wait.Until(ctx, wait.Condition{
		For: "the TPM", Bound: tpmBound, Say: m.say, Changes: wait.Dir(ctx, m.root.At("/dev")),
		Met: func() bool { _, err := os.Stat(m.root.At("/dev/tpmrm0")); return err == nil },
	})
	if err != nil {
		m.say(err.Error())
	}
}

// nonEmpty leaves out what says nothing.
func nonEmpty(list ...string) (out []string) {
	for _, s := range list {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}
