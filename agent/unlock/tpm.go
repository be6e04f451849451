package unlock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"spore/agent/luks"
	"spore/agent/tpm"
	"spore/cluster/spec"
)

// The TPM opens the state of an image with a signature of PCR 11 when all of this holds (docs/secure-boot.md):
//
//   - PCR 7 is what it was: Secure Boot is on, with the same keys, and the same key has signed what was started. Without it, any
//     program could measure into PCR 11 what the image does, since all of that is public.
//   - PCR 12 is zero: the kernel has no words from outside, and no credential or add-on lay beside the image.
//   - PCR 11 is a value that the image's key signed. It is extended as soon as the state is open, so that nothing opens it later.
//
// systemd's policies of that kind name values of PCR 7 and 12, and a key for PCR 11. A list of predicted values for PCR
// 7 (systemd-pcrlock) is not needed: Expect adds a slot for the one value that comes.

// Start is what was measured of this start of the machine.
type Start struct {
	// SecureBoot tells whether the firmware starts only what is signed.
	SecureBoot bool
	// Keys and Words are PCR 7 and PCR 12.
	Keys, Words tpm.Digest
}

func byTPM(method string) bool { return method == spec.EncryptTPM || method == spec.EncryptTPMPIN }

// errSecureBootOff is why no slot is made.
var errSecureBootOff = errors.New("the image is signed and Secure Boot is off: the TPM would open the state to whatever somebody starts here, and gets no key. " +
	"Bring your keys to the machine and switch Secure Boot on")

// policy is what the TPM is to want; nil for an image without a signature of PCR 11, whose state it opens to anybody.
func (o *Options) policy(pin bool) (*tpm.Policy, error) {
	public, err := os.ReadFile(o.PublicKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	key, err := tpm.PublicKey(public)
	if err != nil {
		return nil, err
	}
	start, err := o.Start()
	if err != nil {
		return nil, fmt.Errorf("it is not known what the TPM measured: %w", err)
	}
	if !start.SecureBoot {
		return nil, errSecureBootOff
	}
	return &tpm.Policy{Signer: key, Keys: start.Keys, PIN: pin}, nil
}

// tpmSlots are the key slots that a TPM opens.
func (op *opening) tpmSlots() (out []int) {
	for _, t := range op.header.All(luks.TokenTPM) {
		out = append(out, t.Slots...)
	}
	return out
}

// fits finds a token of the TPM that fits this start.
func (op *opening) fits() (luks.Token, bool) {
	for _, t := range op.header.All(luks.TokenTPM) {
		if t.PublicKey == nil {
			return t, true
		}
		if p, err := op.policy(t.PIN); err == nil && p != nil && p.Is(t.Policy) {
			return t, true
		}
	}
	return luks.Token{}, false
}

// next is the token of the TPM that opens the state at a start like this one. One that no digest fits may be of another
// policy that is fulfilled: it has just opened the state.
func (op *opening) next() (luks.Token, bool) {
	if t, ok := op.fits(); ok {
		return t, true
	}
	t, ok := op.header.Token(luks.TokenTPM)
	return t, ok && byTPM(op.by)
}

// policyText says what a token's TPM wants to see.
func policyText(t luks.Token) string {
	var parts []string
	for _, n := range t.PCRs {
		parts = append(parts, fmt.Sprintf("PCR %d", n))
	}
	if t.PublicKey != nil {
		parts = append(parts, "signed PCR 11")
	}
	return strings.Join(parts, ", ")
}

// byTPM has the TPM open it. An error means that nobody could be asked for the PIN.
func (op *opening) byTPM(ctx context.Context) (bool, error) {
	token, ok := op.header.Token(luks.TokenTPM)
	if !ok {
		return false, nil
	}
	if !op.HasTPM(ctx) {
		op.Say("the state was sealed to a TPM, and this machine has none that works")
		return false, nil
	}
	fitting, fits := op.fits()
	if fits {
		token = fitting
	}
	if token.PIN {
		if op.spoiled() {
			return false, nil // No PIN helps in this start.
		}
		if !fits {
			op.Say(op.why(nil)) // A PIN that cannot help is not asked for.
			return false, nil
		}
		return op.byPIN(ctx)
	}
	if err := op.attachTPM(ctx, ""); err != nil {
		op.Say(op.why(err))
		return false, nil
	}
	op.by = spec.EncryptTPM
	return true, nil
}

// byPIN asks for the PIN until it opens, or for the recovery key in its place.
func (op *opening) byPIN(ctx context.Context) (bool, error) {
	again := ""
	for {
		op.sayWaiting("PIN, or recovery key")
		answer, err := op.Ask(ctx, fmt.Sprintf("%sPIN, or recovery key, of the state of %s:", again, op.Node))
		if err != nil {
			return false, fmt.Errorf("nobody could be asked for its PIN: %w", err)
		}
		if key, ok := normalRecovery(answer); ok {
			if err = op.attach(ctx, key, Recovery); err == nil {
				op.typed = true
				return true, nil
			}
		} else if err = op.attachTPM(ctx, answer); err == nil {
			op.by, op.pin = spec.EncryptTPMPIN, answer
			return true, nil
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		op.Say(fmt.Sprintf("what was typed does not open the state; nothing was changed. After a few wrong PINs the TPM takes none for a while, and the recovery key opens: %v", err))
		again = "That does not open it. "
	}
}

// attachTPM opens it by the TPM. A second key is not asked for: what asks is ours.
func (op *opening) attachTPM(ctx context.Context, pin string) error {
	var env []string
	if pin != "" {
		// systemd-cryptsetup takes a PIN from a credential too, but then tries a wrong one again and again, until the TPM
		// locks itself. It takes the variable out of its environment before it does anything.
		env = append(env, "PIN="+pin)
	}
	return op.Exec(ctx, env, "systemd-cryptsetup", "attach", Name, op.device, "-", "luks,headless=true,tpm2-device=auto,token-timeout=10s")
}

// spoiled tells whether the TPM can open nothing in this start, and will in the next one.
func (op *opening) spoiled() bool { return op.signed() && op.Spoiled != nil && op.Spoiled() }

// restartBound is how long a restart may take to end this process.
const restartBound = 2 * time.Minute

// again restarts the machine where that has the TPM open the state, in place of a question that nobody may be there to
// answer: an image that was tried before this one in the same start has left its measurements. It returns when there
// is nothing to restart for, or when the restart ends this process. How often this happens is bounded by Spoiled.
func (op *opening) again(ctx context.Context) error {
	if !op.spoiled() {
		return nil
	}
	op.Say("another image was tried before this one in the same start, and has left its measurements in PCR 11: the TPM opens " +
		"the state after a restart. Restarting the machine")
	if err := op.Restart(ctx); err != nil {
		op.Say("the machine does not restart: " + err.Error())
		return nil
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("the machine is restarted: %w", ctx.Err())
	case <-time.After(restartBound):
		return nil
	}
}

// why says, of what is known, why the TPM does not open the state.
func (op *opening) why(err error) string {
	reason := "was it cleared, the disk moved, or the image signed with another key?"
	switch start, serr := op.Start(); {
	case serr != nil:
		reason = serr.Error()
	case !op.signed():
	case !start.SecureBoot:
		reason = "Secure Boot is off; switch it on in the machine's setup"
	case start.Words != tpm.Digest{}:
		reason = "something from outside of the image was measured (PCR 12): words for the kernel, or files in loader/credentials, loader/addons or " +
			"beside the image on the boot medium; take them away"
	case op.spoiled():
		reason = "another image was tried before this one in the same start (PCR 11)"
	case !op.expected():
		reason = "the firmware's keys for Secure Boot are others, or another of them let the image start (PCR 7)"
	}
	if err != nil {
		return fmt.Sprintf("this machine's TPM does not open the state: %s (%v)", reason, err)
	}
	return "this machine's TPM does not open the state: " + reason
}

// signed tells whether a token wants a signature of PCR 11, and expected whether one names the PCR 7 of this start.
func (op *opening) signed() bool {
	return slices.ContainsFunc(op.header.All(luks.TokenTPM), func(t luks.Token) bool { return t.PublicKey != nil })
}

func (op *opening) expected() bool { _, ok := op.fits(); return ok }

// enrollTPM sees to it that the TPM has one key slot with the policy of this image and this start, and takes away what
// opened the state otherwise.
func (op *opening) enrollTPM(ctx context.Context, pin bool) error {
	policy, err := op.policy(pin)
	if err != nil {
		return err
	}
	if policy == nil {
		return op.enrollUnsigned(ctx, pin)
	}
	all := op.header.All(luks.TokenTPM)
	if i := slices.IndexFunc(all, func(t luks.Token) bool { return policy.Is(t.Policy) }); i >= 0 {
		start, _ := op.Start()
		if byTPM(op.by) || start.Words != (tpm.Digest{}) {
			// The slot is right: it opened the state, or will when nothing comes from outside.
			return op.wipe(ctx, slices.DeleteFunc(append(op.tpmSlots(), op.passphrases()...), func(n int) bool { return slices.Contains(all[i].Slots, n) })...)
		}
		// systemd-cryptenroll makes no slot where one has the same policy, even when that was sealed to another TPM.
		if err := op.wipe(ctx, all[i].Slots...); err != nil {
			return err
		}
	}
	return op.sealTo(ctx, pin, []string{
		"--tpm2-device=auto", "--tpm2-pcrs=" + policy.PCRs(), "--tpm2-pcrlock=", "--tpm2-public-key=" + op.PublicKey, fmt.Sprintf("--tpm2-public-key-pcrs=%d", tpm.Image),
	})
}

// enrollUnsigned gives a TPM a slot that looks at nothing.
func (op *opening) enrollUnsigned(ctx context.Context, pin bool) error {
	if op.signed() {
		return errors.New("the TPM opens the state to signed images alone, and this image has no signature of PCR 11: what opens the state stays as it is")
	}
	token, ok := op.header.Token(luks.TokenTPM)
	if ok && byTPM(op.by) && token.PIN == pin {
		return op.wipe(ctx, op.passphrases()...)
	}
	if ok && !byTPM(op.by) {
		if err := op.wipe(ctx, op.tpmSlots()...); err != nil {
			return err
		}
	}
	op.Say("the image has no signature of PCR 11, so that the TPM opens the state to whatever runs on this machine")
	return op.sealTo(ctx, pin, []string{"--tpm2-device=auto", "--tpm2-pcrs=", "--tpm2-pcrlock="})
}

// sealTo makes the slot, with a PIN where one is wanted: the one that was typed in this start, or a new one.
func (op *opening) sealTo(ctx context.Context, pin bool, args []string) error {
	secrets := map[string]string{}
	if pin {
		number := op.pin
		if number == "" {
			var err error
			if number, err = op.choose(ctx, "PIN"); err != nil {
				return err
			}
		}
		secrets["cryptenroll.new-tpm2-pin"] = number
		args = append(args, "--tpm2-with-pin=yes")
	}
	return op.enrollWith(ctx, secrets, args)
}

// ErrNotSealed says that no TPM opens the state by what the firmware measures, so that nothing has to be expected.
var ErrNotSealed = errors.New("no TPM opens the state")

// Expect adds a key slot for a start of the same image with another PCR 7, which is about to come, beside the one for
// now. The next start with it takes the other slot away. key is the recovery key: a TPM opens nothing any more by now.
func (o *Options) Expect(ctx context.Context, device string, header luks.Header, keys tpm.Digest, key string) error {
	op := &opening{Options: o, device: device, header: header}
	token, ok := op.fits()
	if !ok || token.PublicKey == nil {
		return ErrNotSealed
	}
	if token.PIN {
		return errors.New("the TPM wants a PIN, which nobody is there to type: the recovery key will be asked for once")
	}
	policy, err := o.policy(false)
	if err != nil {
		return err
	}
	policy.Keys = keys
	if slices.ContainsFunc(header.All(luks.TokenTPM), func(t luks.Token) bool { return policy.Is(t.Policy) }) {
		return nil
	}
	k, err := o.file(key)
	if err != nil {
		return err
	}
	defer k.Discard()
	return o.cryptenroll(ctx, device, nil, []string{
		"--tpm2-device=auto", "--tpm2-pcrs=" + policy.PCRs(), "--tpm2-pcrlock=", "--tpm2-public-key=" + o.PublicKey,
		fmt.Sprintf("--tpm2-public-key-pcrs=%d", tpm.Image), "--unlock-key-file=" + k.File,
	})
}
