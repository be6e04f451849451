package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"spore/agent/alerts/mqtt"
	"spore/agent/alerts/notice"
	"spore/agent/plant"
	"spore/services/metrics"
	"spore/services/metrics/bridge"
	"spore/services/remote"
)

// maxLevel bounds a level of a topic that comes from a label, in bytes.
const maxLevel = 64

// level is a label as one level of a topic: no separator, no wildcard, nothing that a reader has to quote.
func level(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, s)
	if s == "" {
		return "none"
	}
	return s[:min(len(s), maxLevel)]
}

// published is an alert as JSON for MQTT. docs/alerting.md has its keys.
type published struct {
	Status      string            `json:"status"`
	Name        string            `json:"name"`
	Severity    string            `json:"severity"`
	Instance    string            `json:"instance"`
	Cluster     string            `json:"cluster"`
	Summary     string            `json:"summary"`
	Description string            `json:"description,omitempty"`
	Since       time.Time         `json:"since"`
	Until       *time.Time        `json:"until,omitempty"`
	Fingerprint string            `json:"fingerprint"`
	Labels      map[string]string `json:"labels"`
}

// message is an alert for MQTT.
func (b *Bridge) message(topic string, a notice.Alert) (mqtt.Message, error) {
	p := published{
		Status: "firing", Name: a.Name, Severity: a.Severity, Instance: a.Instance, Cluster: b.config.Cluster,
		Summary: a.Summary, Description: a.Description, Since: a.Since, Fingerprint: a.Fingerprint, Labels: a.Labels,
	}
	if !a.Firing {
		p.Status, p.Until = "resolved", &a.Until
	}
	text, err := json.Marshal(p)
	if err != nil {
		return mqtt.Message{}, fmt.Errorf("internal error: %w", err)
	}
	if len(text) > mqtt.MaxPayload {
		p.Labels = nil // They are the one part that may be long.
		if text, err = json.Marshal(p); err != nil {
			return mqtt.Message{}, fmt.Errorf("internal error: %w", err)
		}
	}
	return mqtt.Message{Topic: topic + "/" + level(a.Instance) + "/" + level(a.Name), Payload: text}, nil
}

// beat is a heartbeat.
type beat struct {
	Time    time.Time `json:"time"`
	Cluster string    `json:"cluster"`
	Node    string    `json:"node"`
}

// heartbeat says to somebody else that rules are evaluated and that what they say arrives here. It is sent only while
// the rule that always fires does fire.
func (b *Bridge) heartbeat(ctx context.Context, alerts []notice.Alert) error {
	to := b.config.Heartbeat
	fires := func(a notice.Alert) bool { return a.Firing && a.Name == metrics.Watchdog }
	if to == nil || !slices.ContainsFunc(alerts, fires) {
		return nil
	}
	now := b.now().UTC().Truncate(time.Second)
	text, err := json.Marshal(beat{Time: now, Cluster: b.config.Cluster, Node: b.config.Node})
	if err != nil {
		return fmt.Errorf("internal error: %w", err)
	}
	// One that hangs takes none of the other one's time.
	var ways sync.WaitGroup
	var overMQTT, overHTTP error
	if to.MQTT != nil {
		ways.Go(func() {
			overMQTT = b.publish(ctx, *to.MQTT, []mqtt.Message{{Topic: to.MQTT.Topic, Payload: text, Retain: true}})
		})
	}
	if to.HTTP != nil {
		ways.Go(func() { overHTTP = post(ctx, *to.HTTP, text) })
	}
	ways.Wait()
	if err := errors.Join(overMQTT, overHTTP); err != nil {
		return fmt.Errorf("send the heartbeat: %w", err)
	}
	return nil
}

// post sends a heartbeat to an HTTP server. Its errors have no URL: knowing that may be enough to send.
func post(ctx context.Context, to bridge.HTTP, text []byte) error {
	address := to.URL
	if to.URLFile != "" {
		var err error
		if address, err = plant.Secret(to.URLFile); err != nil {
			return err
		}
		if why := remote.BadURL(address); why != "" {
			return errors.New("the URL in the bundle " + why)
		}
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(text))
	if err != nil {
		return errors.New("the URL is malformed")
	}
	q.Header.Set("Content-Type", "application/json")
	if to.TokenFile != "" {
		token, err := plant.Secret(to.TokenFile)
		if err != nil {
			return err
		}
		q.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(q)
	if err != nil {
		return fmt.Errorf("ask the HTTP server: %w", errors.Unwrap(err))
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 4<<10)
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("the HTTP server answers %d", answer.StatusCode)
	}
	return nil
}
