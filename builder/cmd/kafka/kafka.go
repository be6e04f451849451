// Package kafka is the command `spore kafka`: topics, the lag of groups, the controllers, and moving all copies off a
// broker.
package kafka

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/verb"
	"spore/fleet/kafkastatus"
	"spore/wire/nodeapi"
)

// role is that of brokers, of which one is asked.
const role = "kafka-broker"

// Command returns the command.
func Command() *cobra.Command {
	cmd := &cobra.Command{Use: "kafka", Short: "Look after Kafka", Args: exit.Args(cobra.NoArgs)}
	cmd.AddCommand(
		verb.One{
			Use: "topics [DIR]", Verb: "kafka-topics", Role: role, Short: "List topics, and which lack copies",
			Long: "Topics asks a broker for all topics: their partitions, copies, and how many of them are behind. With\n" +
				"--json a topic with thousands of partitions may be in several parts.",
			Example: "  spore kafka topics\n  spore kafka topics configs --json", Show: showTopics,
		}.Command(),
		verb.One{
			Use: "lag [DIR]", Verb: "kafka-lag", Role: role, Short: "Show how far groups of consumers are behind",
			Long:    "Lag asks every broker for its groups, and compares what they have confirmed with the ends of the partitions.",
			Example: "  spore kafka lag\n  spore kafka lag configs --json", Show: showLag,
		}.Command(),
		verb.One{
			Use: "quorum [DIR]", Verb: "kafka-quorum", Role: role, Short: "Show who leads the controllers, and which brokers are up",
			Long:    "Quorum asks a broker for the controllers, how far each is behind the one that leads, and for the brokers.",
			Example: "  spore kafka quorum\n  spore kafka quorum configs --json", Show: showQuorum,
		}.Command(),
		verb.One{
			Use: "move [DIR] BROKER", Verb: "kafka-move", Role: role, Words: []string{"off"}, Short: "Move all copies off a broker",
			Long: `Move has the other brokers take the copies of all partitions that BROKER has, and waits until they have them. It refuses
where a partition has a copy on every broker that is up: add a broker first, or allow one copy less with --shrink.`,
			Example:  "  spore kafka move kafka-03 --dry-run\n  spore kafka move configs kafka-03 --shrink",
			Switches: map[string]string{"shrink": "where no other broker can take a copy, have one less"},
		}.Command(),
	)
	return cmd
}

func showTopics(w io.Writer, _ string, results []json.RawMessage) error {
	topics, err := kafkastatus.Topics(results)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TOPIC\tPARTITIONS\tCOPIES\tBEHIND\tWITHOUT LEADER")
	for _, topic := range topics {
		copies, behind, offline := topic.Counts()
		name := nodeapi.Harmless(topic.Name)
		if topic.Problem != "" {
			name += " (" + nodeapi.Harmless(topic.Problem) + ")"
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\n", name, len(topic.Partitions), copies, behind, offline)
	}
	return t.Flush()
}

func showLag(w io.Writer, _ string, results []json.RawMessage) error {
	lags, err := kafkastatus.Lags(results)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GROUP\tSTATE\tTOPIC\tRECORDS BEHIND\tUNKNOWN PARTITIONS")
	for _, l := range lags {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\n", nodeapi.Harmless(l.Group), nodeapi.Harmless(l.State), nodeapi.Harmless(l.Topic), l.Records, l.Unknown)
	}
	return t.Flush()
}

func showQuorum(w io.Writer, _ string, results []json.RawMessage) error {
	q, err := kafkastatus.ReadQuorum(results)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CONTROLLER\tSTATE\tRECORDS BEHIND\tLAST HEARD")
	for _, v := range q.Voters {
		state, heard := "follows", fmt.Sprintf("%d s ago", v.Silent)
		switch {
		case v.Name == q.Leader:
			state, heard = "leads", "-"
		case v.Silent < 0:
			state, heard = "is not heard", "-"
		case !v.Follows():
			state = "is not heard"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", nodeapi.Harmless(v.Name), state, v.Behind, heard)
	}
	fmt.Fprintln(t, "\nBROKER\tSTATE")
	for _, b := range q.Brokers {
		state := "up"
		if !b.Up {
			state = "down"
		}
		fmt.Fprintf(t, "%s\t%s\n", nodeapi.Harmless(b.Name), state)
	}
	return t.Flush()
}
