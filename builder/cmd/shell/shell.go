// Package shell is the command `spore shell`: an emergency shell of root on a node, by a grant that the operator's
// offline key signed; the replay of what was shown; and the word that somebody has seen that it happened.
package shell

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"spore/builder/cmd/ask"
	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/wire/nodeapi"
	"spore/wire/shell"
)

// listed is the value of --replay without one.
const listed = "list"

// options are those of `spore shell`.
type options struct {
	reach                      reach.Flags
	grant, replay, acknowledge string
	fast, plain, asJSON        bool
}

// Command returns the command.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "shell [DIR] NODE --grant FILE",
		Short: "Open an emergency shell on a node by a signed grant, or replay one",
		Long: `Shell opens a shell of root on one node, where the image has one (image.yaml, shell: granted), by a grant that
spore shell sign wrote, with the admin's certificate that the grant names. A grant opens one session. It ends with the
shell, with its time, and with the connection, and takes with it what it has started; spore shell exits with the exit
status of the shell. When the standard input is not a terminal, the shell reads it as a script.

What the shell shows is recorded in the node's journal before you see it; of a script, also what it reads. --replay
lists the sessions of a node, --replay=SESSION shows one as it was shown, at its pace or --fast. A replay is raw: your
terminal obeys it as it obeyed the shell. --plain shows control characters as text instead. A session stands in spore
status and spore health until an admin acknowledges it. SESSION may be the beginning of its name.`,
		Example: `  spore shell make-key shell.key
  spore shell sign configs edge-1 --key shell.key --reason 'the state does not mount' -o edge-1.grant
  spore shell configs edge-1 --grant edge-1.grant
  spore shell edge-1 --grant edge-1.grant < repair.sh
  spore shell edge-1 --replay
  spore shell edge-1 --replay=5c1f0d7b --fast
  spore shell edge-1 --acknowledge 5c1f0d7b`,
		Args: exit.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, words := folder(args)
			o.reach.Nodes = words[:1]
			return o.run(cmd, dir)
		},
	}
	o.reach.Register(cmd, false)
	f := cmd.Flags()
	f.StringVar(&o.grant, "grant", "", "open a shell by the grant in this file")
	f.StringVar(&o.replay, "replay", "", "show a session, or list them all")
	f.Lookup("replay").NoOptDefVal = listed
	f.StringVar(&o.acknowledge, "acknowledge", "", "keep that you have seen that this session took place")
	f.BoolVar(&o.fast, "fast", false, "with --replay: do not wait between what was shown")
	f.BoolVar(&o.plain, "plain", false, "with --replay: show control characters as text")
	f.BoolVar(&o.asJSON, "json", false, "with --replay and --acknowledge: print JSON")
	cmd.AddCommand(makeKeyCommand(), signCommand())
	return cmd
}

func (o *options) run(cmd *cobra.Command, dir string) error {
	given := 0
	for _, text := range []string{o.grant, o.replay, o.acknowledge} {
		if text != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return exit.Usage(errors.New("give --grant FILE, --replay or --acknowledge SESSION"))
	case o.replay == "" && (o.fast || o.plain), o.grant != "" && o.asJSON:
		return exit.Usage(errors.New("--fast and --plain are for --replay, --json for --replay and --acknowledge"))
	case o.grant != "":
		return o.open(cmd, dir)
	case o.replay == listed:
		return o.list(cmd, dir)
	case o.replay != "":
		return o.show(cmd, dir)
	}
	return o.seen(cmd, dir)
}

// open opens a shell.
func (o *options) open(cmd *cobra.Command, dir string) error {
	data, g, err := readGrant(o.grant)
	if err != nil {
		return err
	}
	c, err := o.reach.Open(cmd, dir, nodeapi.Admin)
	if err != nil {
		return err
	}
	node := c.Nodes[0].Name
	if g.Node != node {
		return exit.Usage(fmt.Errorf("%s is for %s, not for %s", o.grant, g.Node, node))
	}
	s := session{cmd: cmd, node: node, grant: data}
	outcome, err := s.open(c)
	if err != nil {
		return fmt.Errorf("%s: %w", node, err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: session %s ended: %s\n", node, g.ID, nodeapi.Harmless(outcome.String()))
	switch {
	case outcome.Why != "":
		return fmt.Errorf("%s: %s", node, nodeapi.Harmless(outcome.Why))
	case outcome.Status != 0:
		return exit.Status(outcome.Status)
	}
	return nil
}

// readGrant reads a grant. Whether it is signed is for the node to say.
func readGrant(name string) ([]byte, shell.Grant, error) {
	data, err := ask.Small(name)
	if err != nil {
		return nil, shell.Grant{}, fmt.Errorf("read the grant: %w", err)
	}
	g, err := shell.Peek(data)
	if err != nil {
		return nil, g, fmt.Errorf("%s: %w", name, err)
	}
	return data, g, nil
}

// find is the session that a text names, or the beginning of its name.
func find(all []shell.Session, text string) (string, error) {
	var found []string
	for _, s := range all {
		if strings.HasPrefix(s.ID, text) {
			found = append(found, s.ID)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("no session of this node begins with %q; list them with --replay", text)
	}
	return "", fmt.Errorf("%d sessions of this node begin with %q; write more of it", len(found), text)
}

// seen acknowledges a session.
func (o *options) seen(cmd *cobra.Command, dir string) error {
	answers, err := o.ask(cmd, dir, "shell-acknowledge", o.acknowledge)
	if err != nil {
		return err
	}
	return verb.Tell(cmd, answers, o.asJSON, nil)
}

// ask calls a verb of the one session that a text names, or the beginning of its name.
func (o *options) ask(cmd *cobra.Command, dir, name, text string) ([]reach.Answer[verb.Reply], error) {
	v := verb.Row(name)
	c, err := verb.Open(cmd, o.reach, dir, v)
	if err != nil {
		return nil, err
	}
	all, err := sessions(cmd, c)
	if err != nil {
		return nil, err
	}
	id, err := find(all, text)
	if err != nil {
		return nil, err
	}
	order := nodeapi.Order{Arguments: map[string]string{"session": id}}
	return verb.Ask(cmd, c, v, verb.Same(order), nil), nil
}
