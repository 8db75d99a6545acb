package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/setpointd/setpoint/core/internal/outward"
)

// Alertmanager tells Prometheus' Alertmanagers, by their API of version 2. All of them are told, and one that hears is enough: they tell each other.
type Alertmanager struct {
	URLs   []string
	Labels map[string]string // added to each alert, for routes
	Resend time.Duration     // how often what still waits is said again
	HTTP   HTTP
}

// resolveAfter is after how many times of Resend without a word an Alertmanager takes an alert for ended, as Prometheus has it.
const resolveAfter = 4

// trialLasts is how long a trial alert lasts.
const trialLasts = time.Minute

// amAlert is an alert as POST /api/v2/alerts takes it (github.com/prometheus/alertmanager, api/v2/openapi.yaml, postableAlert).
type amAlert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

type alertmanager struct {
	Alertmanager
	caller caller
}

func (m *alertmanager) target() string {
	hosts := make([]string, len(m.URLs))
	for i, u := range m.URLs {
		hosts[i] = outward.Shown(u)
	}
	return strings.Join(hosts, " ")
}

// resend is how often open alerts are to be delivered again.
func (m *alertmanager) resend() time.Duration { return m.Resend }

func (m *alertmanager) deliver(ctx context.Context, b *batch) error {
	body, err := json.Marshal(m.alerts(b))
	if err != nil {
		return err
	}
	failed := make([]error, len(m.URLs))
	done := make(chan struct{})
	for i, u := range m.URLs {
		go func() {
			defer func() { done <- struct{}{} }()
			if err := m.caller.post(ctx, strings.TrimRight(u, "/")+"/api/v2/alerts", body, nil); err != nil {
				failed[i] = fmt.Errorf("%s: %w", outward.Shown(u), err)
			}
		}()
	}
	for range m.URLs {
		<-done
	}
	for _, err := range failed {
		if err == nil {
			return nil
		}
	}
	return errors.Join(failed...)
}

// alerts returns what Alertmanager is told. Labels are what makes an alert the same as before, so nothing is among them that changes while it lasts.
func (m *alertmanager) alerts(b *batch) []amAlert {
	var out []amAlert
	if b.trial {
		out = append(out, amAlert{
			Labels:      m.labels(b, map[string]string{"alertname": "SetpointTrial", "severity": "none"}),
			Annotations: map[string]string{"summary": b.trialSummary()}, StartsAt: b.now.UTC(), EndsAt: b.now.Add(trialLasts).UTC(), GeneratorURL: b.link,
		})
	}
	for _, list := range [][]Alert{b.begin, b.open} {
		for i := range list {
			out = append(out, m.alert(b, &list[i], Stalled, b.now.Add(resolveAfter*m.Resend)))
		}
	}
	for i := range b.end {
		out = append(out, m.alert(b, &b.end[i], Cleared, b.now))
	}
	return out
}

func (m *alertmanager) alert(b *batch, a *Alert, s Status, ends time.Time) amAlert {
	labels := map[string]string{"alertname": "SetpointStall", "code": string(a.Cause.Code), "source": a.Cause.Source, "severity": "warning"}
	if a.Cause.Detail != "" {
		labels["detail"] = a.Cause.Detail
	}
	annotations := map[string]string{"summary": a.summary(s)}
	for name, text := range map[string]string{"description": a.Message, "clears": a.Clears, "jobs": a.jobNames()} {
		if text != "" {
			annotations[name] = text
		}
	}
	return amAlert{Labels: m.labels(b, labels), Annotations: annotations, StartsAt: a.Since.WallTime(), EndsAt: ends.UTC(), GeneratorURL: b.link}
}

func (m *alertmanager) labels(b *batch, own map[string]string) map[string]string {
	own["cluster"] = b.cluster
	maps.Copy(own, m.Labels)
	return own
}
