package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	messagingPath = "/messaging"
	mqttBroker    = "mqtt-broker"
	dnsServer     = "dns-server"
	// askAtOnce are nodes of which the metrics are read at once, and counting lies between two questions: Mosquitto counts
	// each 10 seconds, so that a rate of a shorter time is none and then twice as much.
	askAtOnce, counting = 4, 20 * time.Second
	// Codes of answers of DNS that are no errors: that there is no such name is an answer, too.
	noName = "NXDOMAIN"
	fine   = "NOERROR"
)

// messaging is the page of MQTT and DNS.
type messaging struct {
	HasMQTT, HasDNS bool
	MQTT            []mqttNode
	DNS             []dnsNode
	// counters are those of each node by which rates are reckoned, as of the question before.
	counters map[string]counters
}

// counters are the values of a node that only grow.
type counters struct {
	at     time.Time
	values map[string]float64
}

type mqttNode struct {
	Name, Problem                                 string
	Clients, Away, Subscriptions, Retained        string
	Received, Sent, Dropped, Connects, DroppedAll string
	Level                                         Level
}

type dnsNode struct {
	Name, Problem                     string
	Questions, Answered, Errors, Hits string
	Codes                             []named
	Unreachable                       string
	Level                             Level
}

func askMessaging(ctx context.Context, w *inquiry, before any) (any, error) {
	last, _ := before.(*messaging)
	m := &messaging{
		HasMQTT: len(w.cluster.Members[mqttBroker]) > 0, HasDNS: len(w.cluster.Members[dnsServer]) > 0, counters: map[string]counters{},
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	seats := make(chan struct{}, askAtOnce)
	for _, n := range w.known() {
		mqtt, dns := slices.Contains(n.Roles, mqttBroker), slices.Contains(n.Roles, dnsServer)
		if !mqtt && !dns {
			continue
		}
		all.Go(func() {
			seats <- struct{}{}
			defer func() { <-seats }()
			now := w.now()
			var values map[string]float64
			problem := ""
			if n.Problem != nil { // Many that do not answer would have the others wait.
				problem = n.Problem.Error()
			} else {
				values, problem = w.readMetrics(ctx, n.Name)
			}
			c := counters{now, values}
			mu.Lock()
			defer mu.Unlock()
			var was counters
			if last != nil {
				was = last.counters[n.Name]
			}
			if problem == "" {
				m.counters[n.Name] = c
			}
			if mqtt {
				m.MQTT = append(m.MQTT, mqttOf(n.Name, problem, c, was))
			}
			if dns {
				m.DNS = append(m.DNS, dnsOf(n.Name, problem, c, was))
			}
		})
	}
	all.Wait()
	slices.SortFunc(m.MQTT, func(a, b mqttNode) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	slices.SortFunc(m.DNS, func(a, b dnsNode) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return m, nil
}

// readMetrics has the values of a node that the page shows, by the name of the metric, and with the code of answers
// behind a slash where there is one.
func (w *inquiry) readMetrics(ctx context.Context, node string) (map[string]float64, string) {
	ctx, cancel := context.WithTimeout(ctx, max(w.asker.Timeout, time.Second))
	defer cancel()
	data, err := w.metrics(ctx, node)
	if err != nil {
		return nil, err.Error()
	}
	values := map[string]float64{}
	err = readSamples(bytes.NewReader(data), []string{"mosquitto_", "coredns_", "spore_source_up"}, func(s sample) {
		key := s.name
		switch {
		case s.name == "spore_source_up":
			key += "/" + s.labels["source"]
		case s.labels["program"] != "" && s.labels["program"] != "coredns":
			return // That of pods, which masters have, tells the same metrics.
		case s.name == "coredns_dns_responses_total":
			key += "/" + s.labels["rcode"]
		}
		if len(values) < 1000 {
			values[key] += s.value
		}
	})
	if err != nil {
		return nil, err.Error()
	}
	return values, ""
}

// rate is by how much a counter grows in a second, since the question before.
func rate(name string, now, was counters) (perSecond float64, known bool) {
	value, there := now.values[name]
	before, earlier := was.values[name]
	passed := now.at.Sub(was.at).Seconds()
	if !there || !earlier || value < before || passed < 1 { // Less: its program has started again.
		return 0, false
	}
	return (value - before) / passed, true
}

func perSecond(name string, now, was counters) string {
	r, known := rate(name, now, was)
	if !known {
		return "–"
	}
	return fmt.Sprintf("%.1f", r)
}

// number is a value that is no rate.
func number(name string, c counters) string {
	v, there := c.values[name]
	if !there {
		return "–"
	}
	return fmt.Sprintf("%.0f", v)
}

// silentSource says that a node's collector has nothing of a program; empty where it has.
func silentSource(program string, c counters) string {
	if c.values["spore_source_up/"+program] == 1 {
		return ""
	}
	return program + " does not answer the node's collector, or the collector has just started"
}

func mqttOf(name, problem string, now, was counters) mqttNode {
	n := mqttNode{
		Name: name, Problem: problem,
		Clients: number("mosquitto_clients_connected", now), Away: number("mosquitto_clients_disconnected", now),
		Subscriptions: number("mosquitto_subscriptions", now), Retained: number("mosquitto_messages_retained", now),
		Received: perSecond("mosquitto_messages_received_total", now, was), Sent: perSecond("mosquitto_messages_sent_total", now, was),
		Dropped: perSecond("mosquitto_messages_dropped_total", now, was), DroppedAll: number("mosquitto_messages_dropped_total", now),
		Connects: number("mosquitto_connects_per_minute", now),
	}
	if problem == "" {
		n.Problem = silentSource("mosquitto", now)
	}
	switch r, known := rate("mosquitto_messages_dropped_total", now, was); {
	case n.Problem != "":
		n.Level = Critical
	case known && r > 0:
		n.Level = Warning
	}
	return n
}

func dnsOf(name, problem string, now, was counters) dnsNode {
	n := dnsNode{Name: name, Problem: problem, Questions: perSecond("coredns_dns_requests_total", now, was)}
	if problem == "" {
		n.Problem = silentSource("coredns", now)
	}
	const responses = "coredns_dns_responses_total/"
	wrong, sure := 0.0, true
	for _, key := range slices.Sorted(maps.Keys(now.values)) {
		if len(key) <= len(responses) || key[:len(responses)] != responses {
			continue
		}
		row := named{Name: key[len(responses):], State: perSecond(key, now, was)}
		r, known := rate(key, now, was)
		if row.Name != fine && row.Name != noName {
			wrong, sure = wrong+r, sure && known
			if r > 0 {
				row.Level = Warning
			}
		}
		if len(n.Codes) < 32 {
			n.Codes = append(n.Codes, row)
		}
	}
	n.Errors = "–"
	if sure && len(was.values) > 0 && problem == "" {
		n.Errors = fmt.Sprintf("%.1f", wrong)
	}
	hits, h := rate("coredns_cache_hits_total", now, was)
	looked, l := rate("coredns_cache_requests_total", now, was)
	n.Hits = "–"
	if h && l && looked > 0 {
		n.Hits = percent(min(hits/looked, 1))
	}
	n.Unreachable = perSecond("coredns_forward_healthcheck_broken_total", now, was)
	switch broken, _ := rate("coredns_forward_healthcheck_broken_total", now, was); {
	case n.Problem != "":
		n.Level = Critical
	case wrong > 0 || broken > 0:
		n.Level = Warning
	}
	return n
}
