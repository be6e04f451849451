package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"spore/agent/clusterpart"
	"spore/cluster"
	"spore/cluster/identity"
	"spore/test/edge"
)

// detectCommand is the subcommand that finds nodes with the agent's code; it is not for people.
const detectCommand = "detect"

// detections is how often a node is found, for a time that a clock can measure.
const detections = 2000

// scaleSizes are the numbers of nodes of the curve.
var scaleSizes = []int{10, 100, 1000, 10000}

// Scale is one point of the curve: the processor time of each command.
type Scale struct {
	Nodes                    int
	Validate, Build, Explain Usage
	Detect                   time.Duration // of one
	YAML, Part               int64         // sizes in bytes
}

// scaleNode is what node i of a generated cluster is called and known by; i is from 1.
func scaleNode(i int) (name, mac, ip string) {
	return fmt.Sprintf("n-%05d", i), fmt.Sprintf("52:54:00:%02x:%02x:%02x", i>>16, i>>8&255, i&255), fmt.Sprintf("10.64.%d.%d", i>>8, i&255)
}

// clusterYAML is a cluster of n nodes, each known by its card, with the two services of examples/edge.
func clusterYAML(n int, nameserver, comment string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# %s
name: plant
id: 6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11
domain: plant.example
network:
  nodeSubnets: [10.64.0.0/16]
  gateways: [10.64.255.1]
  nameservers: [%s]
services: [mqtt, dns]
nodes:
`, comment, nameserver)
	for i := 1; i <= n; i++ {
		name, mac, ip := scaleNode(i)
		role := "mqtt-broker"
		if i == 1 {
			role = "mqtt-broker, dns-server"
		}
		fmt.Fprintf(&b, "  - name: %s\n    macs: [\"%s\"]\n    ips: [%s]\n    roles: [%s]\n", name, mac, ip, role)
	}
	return b.String()
}

// scaleFolder makes the configuration folder of n nodes: services and image are those of base.
func scaleFolder(base, dir string, n int) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := copyFolder(filepath.Join(base, "services"), filepath.Join(dir, "services")); err != nil {
		return err
	}
	// One of the records is another name of a node of base.
	dns := filepath.Join(dir, "services", "dns.yaml")
	text, err := os.ReadFile(dns)
	if err != nil {
		return err
	}
	first, _, _ := scaleNode(1)
	return errors.Join(
		os.WriteFile(dns, []byte(strings.ReplaceAll(string(text), edge.Node, first)), 0o644),
		copyFile(filepath.Join(base, "image.yaml"), filepath.Join(dir, "image.yaml")),
		os.WriteFile(filepath.Join(dir, "cluster.yaml"), []byte(clusterYAML(n, "10.64.255.2", "before the first edit")), 0o644),
	)
}

// scale measures one point of the curve, the median of the rounds.
func scale(ctx context.Context, b *bench, base *ours, n int) (Scale, error) {
	s := Scale{Nodes: n}
	o := *base
	o.config = filepath.Join(b.work, fmt.Sprintf("scale-%d", n))
	o.out = filepath.Join(b.work, "scale-out")
	if err := scaleFolder(base.config, o.config, n); err != nil {
		return s, err
	}
	yaml := filepath.Join(o.config, "cluster.yaml")
	part := filepath.Join(b.work, "scale-part")
	size, err := writePart(o.config, part)
	if err != nil {
		return s, err
	}
	s.Part = size
	// The root is that of examples/edge, and from the cache; the output is of as many nodes as the next.
	if _, err := o.build(ctx, o.cache, o.out); err != nil {
		return s, err
	}
	var validates, builds, explains []Usage
	var detects []time.Duration
	_, mac, _ := scaleNode(n/2 + 1)
	for round := range b.rounds {
		text := clusterYAML(n, fmt.Sprintf("10.64.254.%d", round+2), b.edit(round))
		s.YAML = int64(len(text))
		if err := os.WriteFile(yaml, []byte(text), 0o644); err != nil {
			return s, err
		}
		for _, step := range []struct {
			to  *[]Usage
			run func() (Usage, error)
		}{
			{&validates, func() (Usage, error) { return Run(ctx, b.log, nil, "", b.spore, "validate", o.config) }},
			{&builds, func() (Usage, error) { return o.build(ctx, o.cache, o.out) }},
			{&explains, func() (Usage, error) { return Run(ctx, b.log, nil, "", b.spore, "explain", o.config, "--mac", mac) }},
		} {
			u, err := step.run()
			if err != nil {
				return s, err
			}
			*step.to = append(*step.to, u)
		}
		d, err := detectOnce(ctx, b, part, n)
		if err != nil {
			return s, err
		}
		detects = append(detects, d)
	}
	s.Validate, s.Build, s.Explain, s.Detect = middle(validates), middle(builds), middle(explains), median(detects)
	return s, os.RemoveAll(part)
}

// writePart lays the files of a configuration's cluster part out in a folder, as a node finds them, and returns their size.
func writePart(config, dir string) (int64, error) {
	if err := os.RemoveAll(dir); err != nil {
		return 0, err
	}
	c, report := cluster.LoadDir(config)
	if err := report.Err(); err != nil {
		return 0, err
	}
	files, err := cluster.Compile(c)
	if err != nil {
		return 0, err
	}
	var size int64
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			return 0, err
		}
		size += int64(len(data))
	}
	return size, nil
}

// detectOnce runs the subcommand and returns the processor time of one detection.
func detectOnce(ctx context.Context, b *bench, part string, n int) (time.Duration, error) {
	answer := filepath.Join(b.work, "detect.json")
	if _, err := Run(ctx, b.log, nil, "", b.self, detectCommand, part, fmt.Sprint(n), answer); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(answer)
	if err != nil {
		return 0, err
	}
	var d time.Duration
	return d, json.Unmarshal(text, &d)
}

// detect finds nodes by their cards in a cluster part of n nodes, with the agent's own code: it opens the index, finds the node
// and reads what is compiled for it, as a machine does once at its start. It returns the processor time of one.
func detect(dir string, n int) (time.Duration, error) {
	part := clusterpart.Part{Dir: dir}
	before, err := processorTime()
	if err != nil {
		return 0, err
	}
	for i := range detections {
		// 7919 is a prime, so that each is another node as long as there are more.
		want, mac, _ := scaleNode(i*7919%n + 1)
		found, err := part.Match(identity.Facts{MACs: []string{mac}})
		if err != nil {
			return 0, err
		}
		if found.Node != want {
			return 0, fmt.Errorf("the machine with %s is %q, not %s", mac, found.Node, want)
		}
		if _, err := part.Node(found.Node); err != nil {
			return 0, err
		}
	}
	after, err := processorTime()
	return (after - before) / detections, err
}

// runDetect is the subcommand: a folder, the number of its nodes, and the file for the answer in nanoseconds.
func runDetect(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: bench detect PART NODES ANSWER.json")
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number of nodes", args[1])
	}
	d, err := detect(args[0], n)
	if err != nil {
		return err
	}
	text, err := json.Marshal(d)
	return errors.Join(err, os.WriteFile(args[2], text, 0o644))
}

// processorTime is what this process has used, user and system.
func processorTime() (time.Duration, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), nil
}

// scaleTable is the curve as a table.
func scaleTable(points []Scale) string {
	var b strings.Builder
	b.WriteString("| nodes | cluster.yaml KiB | validate CPU s | build CPU s | explain CPU s | detect on the node, µs | build MiB of memory |\n|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, p := range points {
		fmt.Fprintf(&b, "| %d | %d | %s | %s | %s | %d | %s |\n", p.Nodes, p.YAML>>10, number(p.Validate.CPU.Seconds()), number(p.Build.CPU.Seconds()),
			number(p.Explain.CPU.Seconds()), p.Detect.Microseconds(), mebibytes(p.Build.Memory))
	}
	return b.String()
}
