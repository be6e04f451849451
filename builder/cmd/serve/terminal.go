package serve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"spore/builder/netboot"
	"spore/builder/netboot/approval"
	"spore/builder/netboot/control"
	"spore/builder/netboot/roster"
	"spore/builder/pipeline"
	"spore/pki/enroll"
)

const help = `list                  the machines that asked
approve FINGERPRINT   let the machine that shows it have its node's secrets
    --tpm TPM              its TPM has this fingerprint, and is to prove what was started
    --tpm-makers FILE      its TPM is of one of these makers, and is to prove what was started
    --trust-this-network   give keys of authorities to a machine without proof
    --replace              it takes the place of the machine that has its node
deny FINGERPRINT      refuse it
Ctrl-C                end
`

// read does what is typed, one line after the other. Nothing reads the terminal meanwhile, so that a passphrase can be asked for.
func (t *terminal) read(ctx context.Context, in io.Reader) {
	lines := bufio.NewScanner(in)
	for ctx.Err() == nil && lines.Scan() {
		t.do(ctx, strings.Fields(lines.Text()))
	}
}

func (t *terminal) do(ctx context.Context, words []string) {
	var err error
	switch {
	case len(words) == 0:
	case words[0] == "list" && len(words) == 1:
		var state netboot.State
		if state, err = control.State(ctx, t.out); err == nil {
			t.print(func(w io.Writer) { Print(w, state) })
		}
	case words[0] == "approve" && len(words) >= 2:
		err = t.approve(ctx, words[1:])
	case words[0] == "deny" && len(words) == 2:
		var r enroll.Request
		if r, err = approval.Deny(ctx, t.out, words[1]); err == nil {
			t.say("%s", Refused(r))
		}
	default:
		t.print(func(w io.Writer) { _, _ = io.WriteString(w, help) })
	}
	if err != nil {
		t.say("%v", err)
	}
}

// approve does so with the flags of `spore approve`, in another process of which it would be the same.
func (t *terminal) approve(ctx context.Context, words []string) error {
	o := approval.Options{Out: t.out, Netboot: pipeline.NetbootName, Say: t.say, Bundle: func(nodes *roster.Nodes, node string) ([]byte, error) {
		return Bundle(t.keys, nodes, node, t.out)
	}}
	set := pflag.NewFlagSet("approve", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	Approving(set, &o)
	if err := set.Parse(words); err != nil {
		return err
	}
	if set.NArg() != 1 {
		return errors.New("approve takes one fingerprint")
	}
	_, err := approval.Approve(ctx, set.Arg(0), o)
	return err
}

// Approving adds the flags of an approval: what a machine has to prove, and whether it takes another one's place.
func Approving(flags *pflag.FlagSet, o *approval.Options) {
	flags.StringVar(&o.TPM, "tpm", "", "fingerprint of the machine's TPM, which proves what was started")
	flags.StringVar(&o.Makers, "tpm-makers", "", "PEM file with certificates of TPM makers: a TPM of one of them proves what was started")
	flags.BoolVar(&o.TrustNetwork, "trust-this-network", false, "give keys of authorities to a machine without proof: only this server can answer on its network")
	flags.BoolVar(&o.Replace, "replace", false, "approve the machine for a node that another machine has been approved for: it takes that one's place")
}

// print writes what has no time of its own.
func (t *terminal) print(what func(w io.Writer)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	what(t.w)
}
