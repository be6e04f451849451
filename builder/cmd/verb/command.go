package verb

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/reach"
	"spore/wire/nodeapi"
)

// One is a command that has one node do something: a node that is named, or the first of some that answers.
type One struct {
	// Use, Short, Long and Example are those of the command. Use begins with its words; the first is its name.
	Use, Short, Long, Example string
	// Verb is the name of the row.
	Verb string
	// Role is that of the nodes of which the first that answers is asked, and, of an order that destroys nothing, the next
	// one where that fails. It is empty where the first word names the node.
	Role string
	// Words are the names of the arguments that the words give, in this order, behind that of the node.
	Words []string
	// Options are further arguments, as flags: their names and what they are; Letters are flags of one letter for some.
	Options, Letters map[string]string
	// Switches are further arguments that are yes or no; no where they are not given.
	Switches map[string]string
	// Confirm is what the order repeats where it destroys something, and Lost says what is lost, by the words and the
	// node.
	Confirm func(node string, words []string) string
	Lost    func(node string, words []string) string
	// Found takes the place of Confirm and Lost where the node has to say first, asked without a change, what would be
	// lost: from its results it makes both texts. It may change the order.
	Found func(node string, results []json.RawMessage, o *nodeapi.Order) (confirm, lost string, err error)
	// Before does something else first, such as to bring a file, also for a dry run: it changes nothing that the verb is
	// about. It may change the order.
	Before func(cmd *cobra.Command, c *reach.Cluster, o *nodeapi.Order) error
	// Show prints the result; where there is Found, that of an order without a change.
	Show func(w io.Writer, node string, results []json.RawMessage) error
}

// Command makes it. A folder is the first word where there is one more than the command needs.
func (o One) Command() *cobra.Command {
	var f reach.Flags
	var asJSON, dryRun bool
	var confirm, force string
	values, switches := map[string]*string{}, map[string]*bool{}
	v := Row(o.Verb)
	need := len(o.Words)
	if o.Role == "" {
		need++
	}
	cmd := &cobra.Command{
		Use: o.Use, Short: o.Short, Long: o.Long, Example: o.Example,
		Args: exit.Args(cobra.RangeArgs(need, need+1)),
		RunE: func(cmd *cobra.Command, words []string) error {
			dir := "configs"
			if len(words) > need {
				dir, words = words[0], words[1:]
			}
			if o.Role == "" {
				f.Nodes, words = words[:1], words[1:]
			}
			order := nodeapi.Order{Arguments: map[string]string{}, DryRun: dryRun, Force: force}
			for i, name := range o.Words {
				order.Arguments[name] = words[i]
			}
			for name, value := range values {
				order.Arguments[name] = *value
			}
			for name, on := range switches {
				if *on {
					order.Arguments[name] = "yes"
				}
			}
			return o.run(cmd, f, dir, v, order, words, confirm, asJSON)
		},
	}
	f.Register(cmd, o.Role != "")
	flags := cmd.Flags()
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	if v.Kind == nodeapi.Acts {
		flags.BoolVar(&dryRun, "dry-run", false, "change nothing, and say what would be done")
	}
	if v.Destroys {
		flags.StringVar(&confirm, "confirm", "", "repeat what is destroyed, instead of typing it when asked")
	}
	if v.Quorum {
		flags.StringVar(&force, "force", "", "the name of the quorum that may lose its majority")
	}
	for name, about := range o.Options {
		values[name] = flags.StringP(name, o.Letters[name], "", about)
	}
	for name, about := range o.Switches {
		switches[name] = flags.Bool(name, false, about)
	}
	return cmd
}

func (o One) run(cmd *cobra.Command, f reach.Flags, dir string, v nodeapi.Verb, order nodeapi.Order, words []string, confirm string, asJSON bool) error {
	unconfirmed := order
	unconfirmed.Confirm = "asked for below"
	if err := v.Check(unconfirmed); err != nil {
		return exit.Usage(err)
	}
	c, err := Open(cmd, f, dir, v)
	if err != nil {
		return err
	}
	if o.Role != "" && o.Found == nil && o.Before == nil && !v.Destroys {
		answers, err := InTurn(cmd, c, o.Role, v, order)
		if err != nil {
			return err
		}
		return Tell(cmd, answers, asJSON, o.Show)
	}
	if o.Role != "" {
		if err := Answering(cmd, c, o.Role); err != nil {
			return err
		}
	}
	node := c.Nodes[0].Name
	if o.Found != nil {
		return o.find(cmd, c, v, order, confirm, asJSON)
	}
	if v.Destroys && !order.DryRun {
		if order.Confirm, err = Confirm(cmd, confirm, o.Confirm(node, words), o.Lost(node, words)); err != nil {
			return err
		}
	}
	if o.Before != nil {
		if err := o.Before(cmd, c, &order); err != nil {
			return err
		}
	}
	return Tell(cmd, Ask(cmd, c, v, Same(order), nil), asJSON, o.Show)
}

// find has the node say what would be lost, and orders it when a person has confirmed that.
func (o One) find(cmd *cobra.Command, c *reach.Cluster, v nodeapi.Verb, order nodeapi.Order, confirm string, asJSON bool) error {
	look := order
	look.DryRun = true
	found := Ask(cmd, c, v, Same(look), nil)
	if order.DryRun || found[0].Err != nil {
		return Tell(cmd, found, asJSON, o.Show)
	}
	word, lost, err := o.Found(c.Nodes[0].Name, found[0].Value.Results, &order)
	if err != nil {
		return err
	}
	if order.Confirm, err = Confirm(cmd, confirm, word, lost); err != nil {
		return err
	}
	return Tell(cmd, Ask(cmd, c, v, Same(order), nil), asJSON, nil)
}
