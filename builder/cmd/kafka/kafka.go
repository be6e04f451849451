// Package kafka is the command `spore kafka`: topics, the lag of groups, and moving all copies off a broker.
package kafka

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/verb"
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
			Use: "move [DIR] BROKER", Verb: "kafka-move", Role: role, Words: []string{"off"}, Short: "Move all copies off a broker",
			Long: `Move has the other brokers take the copies of all partitions that BROKER has, and waits until they have them. It refuses
where a partition has a copy on every broker that is up: add a broker first, or allow one copy less with --shrink.`,
			Example:  "  spore kafka move kafka-03 --dry-run\n  spore kafka move configs kafka-03 --shrink",
			Switches: map[string]string{"shrink": "where no other broker can take a copy, have one less"},
		}.Command(),
	)
	return cmd
}

// topic is what is shown of one.
type topic struct {
	Name, Problem string
	Partitions    []struct {
		Leader           int32
		Replicas, InSync []int32
	}
}

// merge puts the parts together in which topics come: the first of a part may go on with the last of the one before.
func merge(results []json.RawMessage) ([]topic, error) {
	var all []topic
	for _, part := range results {
		var topics []topic
		if err := json.Unmarshal(part, &topics); err != nil {
			return nil, fmt.Errorf("the answer is malformed: %w", err)
		}
		if n := len(all); n > 0 && len(topics) > 0 && all[n-1].Name == topics[0].Name {
			all[n-1].Partitions = append(all[n-1].Partitions, topics[0].Partitions...)
			topics = topics[1:]
		}
		all = append(all, topics...)
	}
	return all, nil
}

func showTopics(w io.Writer, _ string, results []json.RawMessage) error {
	topics, err := merge(results)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TOPIC\tPARTITIONS\tCOPIES\tBEHIND\tWITHOUT LEADER")
	for _, topic := range topics {
		copies, behind, offline := 0, 0, 0
		for _, p := range topic.Partitions {
			copies = max(copies, len(p.Replicas))
			if len(p.InSync) < len(p.Replicas) {
				behind++
			}
			if p.Leader < 0 {
				offline++
			}
		}
		name := nodeapi.Harmless(topic.Name)
		if topic.Problem != "" {
			name += " (" + nodeapi.Harmless(topic.Problem) + ")"
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\n", name, len(topic.Partitions), copies, behind, offline)
	}
	return t.Flush()
}

func showLag(w io.Writer, _ string, results []json.RawMessage) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GROUP\tSTATE\tTOPIC\tRECORDS BEHIND\tUNKNOWN PARTITIONS")
	for _, part := range results {
		var lags []struct {
			Group, State, Topic string
			Records             int64
			Unknown             int
		}
		if err := json.Unmarshal(part, &lags); err != nil {
			return fmt.Errorf("the answer is malformed: %w", err)
		}
		for _, l := range lags {
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\n", nodeapi.Harmless(l.Group), nodeapi.Harmless(l.State), nodeapi.Harmless(l.Topic), l.Records, l.Unknown)
		}
	}
	return t.Flush()
}
