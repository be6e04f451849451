// Package unlock opens a node's encrypted state partition, and sees to it that it opens by itself the next time.
//
// The partition is LUKS2. Its key slot 0 is opened by the recovery key of the node's bundle: the volume is made with
// that key before the partition table names it (package state), so that the operator can open it from the beginning.
// What opens it at boot has slots of its own, which systemd-cryptenroll(1) makes: the machine's TPM, a
// passphrase, or the host key (package hostkey). They are tried first. Then comes the recovery key of a bundle that was
// delivered again, and then the console is asked, as often as it takes: nothing is ever made anew because it does not
// open.
//
// What the TPM wants to see before it opens is in tpm.go.
package unlock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"spore/agent/luks"
	"spore/cluster/spec"
)

// Name is the name of the mapping, and Device its device node.
const (
	Name   = "spore-state"
	Device = "/dev/mapper/" + Name
)

// What opens the partition, besides the keys of spec.State.
const (
	Recovery = "recovery-key"
	// Already is a mapping that an earlier run of this boot made.
	Already = "already"
)

// recoverySlot is the key slot of the recovery key: that which cryptsetup luksFormat fills.
const recoverySlot = 0

// ErrNoKey is part of the error of Options.Host when there is no host key.
var ErrNoKey = errors.New("there is no host key")

// HostKey is a key that is kept on this machine, outside of the partition.
type HostKey interface {
	// Read returns it; the error is ErrNoKey when there is none.
	Read() (string, error)
	// Make makes one, in place of what there is: when it returns, the key survives a power cut.
	Make() (string, error)
}

// Options is what a Lock works with.
type Options struct {
	// Want says how state is to be encrypted; nil where it is not. What is encrypted already is opened all the same.
	Want *spec.State
	// Node names the node in questions.
	Node string
	// HasTPM tells whether the machine has a TPM 2.0 that works.
	HasTPM func(ctx context.Context) bool
	// Start tells what was measured of this start of the machine.
	Start func() (Start, error)
	// Spoiled tells whether PCR 11 has more in it than the image that runs, and a restart makes it right. Restart restarts
	// the machine, and returns when that has begun.
	Spoiled func() bool
	Restart func(ctx context.Context) error
	// PublicKey is the file of the key that signs what PCR 11 will be (docs/secure-boot.md); it is there when the running
	// image has such a signature.
	PublicKey string
	// Delivered returns the recovery key of the bundle that came with the machine; the error says why there is none.
	Delivered func(ctx context.Context) (string, error)
	// Ask asks at the console, and waits for the answer.
	Ask  func(ctx context.Context, question string) (string, error)
	Host HostKey
	// Dir is a directory in memory, for root alone, for keys that programs read.
	Dir string
	// Exec runs a program and returns its error with what it printed.
	Exec func(ctx context.Context, env []string, name string, args ...string) error
	// Say reports progress, and what did not work.
	Say func(string)
}

// Info says how the partition was opened; it is part of the status line.
type Info struct {
	// Opened is what opened it: tpm2, tpm2-pin, passphrase, host-key, recovery-key, already.
	Opened string `json:"opened"`
	// Next is what opens it at the next boot: tpm2, tpm2-pin, passphrase, host-key, recovery-key.
	Next string `json:"next"`
	// Policy is what the TPM wants to see: "PCR 7, PCR 12, signed PCR 11", or nothing.
	Policy string `json:"policy,omitempty"`
}

// Key is what a new partition is made with.
type Key struct {
	// File holds it.
	File string
}

// Discard removes the file.
func (k Key) Discard() { _ = os.Remove(k.File) }

// Wanted tells whether state is to be encrypted.
func (o *Options) Wanted() bool { return o != nil && o.Want.Encrypted() }

// NewKey is the recovery key, for a partition that is about to be made. It is refused where nothing would open the
// partition at the next boot, or the recovery key has not come.
func (o *Options) NewKey(ctx context.Context) (Key, error) {
	method, err := o.method(ctx)
	if err == nil && byTPM(method) {
		_, err = o.policy(method == spec.EncryptTPMPIN)
	}
	if err != nil {
		return Key{}, err
	}
	key, err := o.Delivered(ctx)
	if err != nil {
		return Key{}, fmt.Errorf("it is to be encrypted, and the recovery key is in this node's bundle: %w", err)
	}
	return o.file(key)
}

// file writes a key where a program can read it.
func (o *Options) file(key string) (Key, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return Key{}, err
	}
	f, err := os.CreateTemp(o.Dir, "key-*") // Its mode is 0600.
	if err != nil {
		return Key{}, err
	}
	defer f.Close()
	if _, err := f.WriteString(key); err != nil {
		return Key{}, err
	}
	return Key{f.Name()}, nil
}

// method is what is to open the partition at boot.
func (o *Options) method(ctx context.Context) (string, error) {
	switch {
	case !o.Want.ByTPM() || o.HasTPM(ctx):
		return o.Want.Encrypt, nil
	case o.Want.WithoutTPM == "" || o.Want.WithoutTPM == spec.RefuseWithoutTPM:
		return "", errors.New("the configuration wants the TPM to open the state, and this machine has no TPM 2.0 that works: " +
			"switch it on in the machine's setup, or write withoutTPM: passphrase (or host-key) below state")
	}
	return o.Want.WithoutTPM, nil
}

// opening is one run of Open.
type opening struct {
	*Options
	device string
	header luks.Header
	// by is what opened it, and key with which key; empty for a TPM.
	by, key string
	// typed says that somebody typed the key.
	typed bool
	// pin is the PIN that the TPM took, for slots that are made anew.
	pin string
}

// Open opens the partition, and enrolls what is to open it the next time. An error means that it is not open and that
// nothing was changed; a warning, that it is open and the next boot may want the recovery key.
func (o *Options) Open(ctx context.Context, device string, header luks.Header) (info Info, warning string, err error) {
	op := &opening{Options: o, device: device, header: header}
	if err := op.open(ctx); err != nil {
		return Info{}, "", err
	}
	err = op.enroll(ctx)
	info = Info{Opened: op.by, Next: Recovery}
	if h, herr := op.read(); herr == nil {
		op.header = h
	}
	switch token, ok := op.next(); {
	case ok:
		info.Next, info.Policy = spec.EncryptTPM, policyText(token)
		if token.PIN {
			info.Next = spec.EncryptTPMPIN
		}
	case len(op.passphrases()) > 0:
		info.Next = spec.EncryptPassphrase
		if m, merr := op.methodOrNone(ctx); merr == nil && m == spec.EncryptHostKey || op.by == spec.EncryptHostKey {
			info.Next = spec.EncryptHostKey
		}
	}
	if err != nil {
		warning = fmt.Sprintf("the state is open, and what opens it at the next boot could not be changed: %v", err)
	}
	return info, warning, nil
}

func (op *opening) read() (luks.Header, error) {
	f, err := os.Open(op.device)
	if err != nil {
		return luks.Header{}, err
	}
	defer f.Close()
	return luks.Read(f)
}

// passphrases are the slots of passphrases and of the host key.
func (op *opening) passphrases() []int {
	var out []int
	for _, s := range op.header.Plain() {
		if s != recoverySlot {
			out = append(out, s)
		}
	}
	return out
}

// open tries all that could open it.
func (op *opening) open(ctx context.Context) error {
	if _, err := os.Stat(Device); err == nil {
		op.by = Already
		return nil
	}
	if opened, err := op.byTPM(ctx); opened || err != nil {
		return err
	}
	if err := op.again(ctx); err != nil {
		return err
	}
	if op.byHostKey(ctx) || op.byBundle(ctx) {
		return nil
	}
	return op.byHand(ctx)
}

func (op *opening) byHostKey(ctx context.Context) bool {
	if len(op.passphrases()) == 0 {
		return false
	}
	key, err := op.Host.Read()
	if errors.Is(err, ErrNoKey) {
		return false
	}
	if err != nil {
		op.Say("the host key of the state: " + err.Error())
		return false
	}
	if err := op.attach(ctx, key, spec.EncryptHostKey); err != nil {
		op.Say(fmt.Sprintf("the host key does not open the state (was the boot medium or the mainboard exchanged?): %v", err))
		return false
	}
	return true
}

func (op *opening) byBundle(ctx context.Context) bool {
	key, err := op.Delivered(ctx)
	if err != nil {
		return false // Most boots have none. The question on the console says what it wants.
	}
	if err := op.attach(ctx, key, Recovery); err != nil {
		op.Say(fmt.Sprintf("the recovery key of the bundle that came with the machine does not open the state: %v", err))
		return false
	}
	return true
}

// byHand asks until something opens it.
func (op *opening) byHand(ctx context.Context) error {
	what := "Recovery key"
	if len(op.passphrases()) > 0 {
		what = "Passphrase, or recovery key,"
	}
	again := ""
	for {
		op.sayWaiting(what)
		answer, err := op.Ask(ctx, fmt.Sprintf("%s%s of the state of %s:", again, what, op.Node))
		if err != nil {
			return fmt.Errorf("nobody could be asked for its recovery key: %w", err)
		}
		key, by := answer, spec.EncryptPassphrase
		if normal, ok := normalRecovery(answer); ok {
			key, by = normal, Recovery
		}
		err = op.attach(ctx, key, by)
		if err == nil {
			op.typed = true
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		op.Say(fmt.Sprintf("what was typed does not open the state; nothing was changed: %v", err))
		again = "That does not open it. "
	}
}

func (op *opening) sayWaiting(what string) {
	op.Say(fmt.Sprintf("waiting for somebody who types the %s of the state of %s on the console; `spore pki export --name state-recovery-key/%s` has the recovery key",
		strings.ToLower(strings.Trim(what, ",")), op.Node, op.Node))
}

// attach opens it with a key.
func (op *opening) attach(ctx context.Context, key, by string) error {
	k, err := op.file(key)
	if err != nil {
		return err
	}
	defer k.Discard()
	if err := op.Exec(ctx, nil, "systemd-cryptsetup", "attach", Name, op.device, k.File, "luks,headless=true,tries=1"); err != nil {
		return err
	}
	op.by, op.key = by, key
	return nil
}

// normalRecovery brings a recovery key into its form, eight groups of eight letters of modhex, as systemd does: people
// leave out the hyphens.
func normalRecovery(s string) (string, bool) {
	var letters []byte
	for _, c := range []byte(strings.ToLower(s)) {
		switch {
		case strings.IndexByte("cbdefghijklnrtuv", c) >= 0:
			letters = append(letters, c)
		case c != '-' && c != ' ':
			return "", false
		}
	}
	if len(letters) != 64 {
		return "", false
	}
	var groups []string
	for i := 0; i < 64; i += 8 {
		groups = append(groups, string(letters[i:i+8]))
	}
	return strings.Join(groups, "-"), true
}

// methodOrNone is method where encryption is asked for, and nothing where it is not.
func (op *opening) methodOrNone(ctx context.Context) (string, error) {
	if !op.Wanted() {
		return "", nil
	}
	method, err := op.method(ctx)
	if _, sealed := op.header.Token(luks.TokenTPM); err == nil && sealed && op.Want.ByTPM() && !byTPM(method) {
		// Whoever switches the TPM off in the machine's setup must not be given a weaker key for it.
		return "", errors.New("the state was sealed to a TPM, and this machine has none that works: what opens it stays as it is until the TPM is back")
	}
	return method, err
}

// enroll sees to it that what is asked for opens it at the next boot, and nothing else but the recovery key.
func (op *opening) enroll(ctx context.Context) error {
	method, err := op.methodOrNone(ctx)
	if err != nil || method == "" || op.by == Already {
		return err
	}
	if byTPM(method) {
		return op.enrollTPM(ctx, method == spec.EncryptTPMPIN)
	}
	if op.by == method || method == spec.EncryptPassphrase && !op.typed && len(op.passphrases()) > 0 && !byTPM(op.by) {
		// It was there, and nobody has said that it is lost.
		return op.wipe(ctx, op.tpmSlots()...)
	}
	var key string
	if method == spec.EncryptHostKey {
		key, err = op.Host.Make()
	} else {
		key, err = op.choose(ctx, "passphrase")
	}
	if err != nil {
		return err
	}
	return op.enrollText(ctx, key)
}

// enrollText gives a passphrase or the host key a key slot.
func (op *opening) enrollText(ctx context.Context, key string) error {
	return op.enrollWith(ctx, map[string]string{"cryptenroll.new-passphrase": key}, []string{"--password"})
}

// enrollWith makes a key slot, and then takes away all others but that of the recovery key. secrets are systemd's
// credentials for the program: what is in its environment could be read in /proc.
func (op *opening) enrollWith(ctx context.Context, secrets map[string]string, args []string) error {
	args = append(args, "--wipe-slot="+strings.Join(append([]string{"tpm2"}, numbers(op.passphrases())...), ","))
	if byTPM(op.by) {
		args = append(args, "--unlock-tpm2-device=auto")
		if op.pin != "" {
			secrets["cryptenroll.tpm2-pin"] = op.pin
		}
	} else {
		k, err := op.file(op.key)
		if err != nil {
			return err
		}
		defer k.Discard()
		args = append(args, "--unlock-key-file="+k.File)
	}
	return op.cryptenroll(ctx, op.device, secrets, args)
}

// cryptenroll runs systemd-cryptenroll with credentials.
func (o *Options) cryptenroll(ctx context.Context, device string, secrets map[string]string, args []string) error {
	var env []string
	if len(secrets) > 0 {
		if err := os.MkdirAll(o.Dir, 0o700); err != nil {
			return err
		}
		dir, err := os.MkdirTemp(o.Dir, "key-*") // Its mode is 0700.
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		for name, secret := range secrets {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(secret), 0o600); err != nil {
				return err
			}
		}
		env = append(env, "CREDENTIALS_DIRECTORY="+dir)
	}
	return o.Exec(ctx, env, "systemd-cryptenroll", append(args, device)...)
}

// wipe takes key slots away.
func (op *opening) wipe(ctx context.Context, slots ...int) error {
	if len(slots) == 0 {
		return nil
	}
	return op.cryptenroll(ctx, op.device, nil, []string{"--wipe-slot=" + strings.Join(numbers(slots), ",")})
}

// minPassphrase is the fewest letters of a passphrase; whoever has the disk can try as many as the machine's time
// allows.
const minPassphrase = 12

// minPIN is the fewest letters of a PIN: the TPM lets nobody try more than a few before it locks itself for minutes or
// hours.
const minPIN = 6

// choose asks for a new passphrase or PIN, twice.
func (op *opening) choose(ctx context.Context, what string) (string, error) {
	again, least := "", minPassphrase
	if what == "PIN" {
		least = minPIN
	}
	for {
		first, err := op.Ask(ctx, fmt.Sprintf("%sNew %s for the state of %s, at least %d characters:", again, what, op.Node, least))
		if err != nil {
			return "", err
		}
		_, recovery := normalRecovery(first)
		if len([]rune(first)) < least || recovery {
			again = "That is too short. "
			if recovery {
				again = "That has the form of a recovery key. "
			}
			continue
		}
		second, err := op.Ask(ctx, "The same once more:")
		if err != nil {
			return "", err
		}
		if first == second {
			return first, nil
		}
		again = "These were two. "
	}
}

func numbers(slots []int) []string {
	var out []string
	for _, s := range slots {
		out = append(out, strconv.Itoa(s))
	}
	return out
}

// Clean removes keys that a run that was cut off left.
func (o *Options) Clean() {
	left, _ := filepath.Glob(filepath.Join(o.Dir, "key-*"))
	for _, path := range left {
		_ = os.RemoveAll(path)
	}
}
