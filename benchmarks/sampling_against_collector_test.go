// Decisions of the collector's own code, for benchmarks/sampling_against_collector.py, which copies this file
// into the source of processor/tailsamplingprocessor and runs it there.

package tailsamplingprocessor

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/tailsamplingprocessor/internal/metadata"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/tailsamplingprocessor/pkg/samplingpolicy"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/featuregate"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"
)

func TestDiff(t *testing.T) {
	root := os.Getenv("DIFF_DIR")
	if root == "" {
		t.Skip("no DIFF_DIR")
	}
	if os.Getenv("DIFF_GATE") != "" {
		if err := featuregate.GlobalRegistry().Set("processor.tailsamplingprocessor.usetracestate", true); err != nil {
			t.Fatal(err)
		}
	}
	dirs, _ := filepath.Glob(filepath.Join(root, "*"))
	sort.Strings(dirs)
	for _, dir := range dirs {
		conf, err := confmaptest.LoadConf(filepath.Join(dir, "policies.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		cfg := createDefaultConfig().(*Config)
		if err := conf.Unmarshal(cfg); err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		set := processortest.NewNopSettings(metadata.Type)
		telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
		if err != nil {
			t.Fatal(err)
		}
		tsp := &tailSamplingSpanProcessor{ctx: t.Context(), cfg: *cfg, set: set, logger: set.Logger, sampleOnFirstMatch: cfg.SampleOnFirstMatch, telemetry: telemetry, useTracestate: metadata.ProcessorTailsamplingprocessorUsetracestateFeatureGate.IsEnabled()}
		policies, err := tsp.loadSamplingPolicies(componenttest.NewNopHost(), cfg.PolicyCfgs)
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		tsp.policies = policies
		file, err := os.Open(filepath.Join(dir, "traces.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		out, _ := os.Create(filepath.Join(dir, "collector.json"))
		result := map[string]any{}
		scanner := bufio.NewScanner(file)
		scanner.Buffer(make([]byte, 1<<20), 1<<26)
		var candidates []tickCandidate
		metrics := newPolicyEvaluationMetrics(len(policies))
		numDrop := 0
		for _, p := range policies {
			if !p.isDrop {
				break
			}
			numDrop++
		}
		for scanner.Scan() {
			traces, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(scanner.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			id := traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).TraceID()
			data := &samplingpolicy.TraceData{SpanCount: int64(traces.SpanCount()), ReceivedBatches: traces}
			raw := [16]byte(id)
			key := hex.EncodeToString(raw[:])
			if p := tsp.evaluateDropPolicies(t.Context(), numDrop, id, data, metrics); p != nil {
				result[key] = map[string]any{"keep": false, "policy": p.name, "threshold": 0}
				continue
			}
			candidates = append(candidates, tickCandidate{id: pcommon.TraceID(id), data: data})
		}
		if tsp.useTracestate {
			tsp.runBatchPolicies(t.Context(), candidates)
		}
		for _, c := range candidates {
			d, name, th := tsp.makeDecision(t.Context(), numDrop, c.id, c.data, metrics)
			raw := [16]byte(c.id)
			result[hex.EncodeToString(raw[:])] = map[string]any{"keep": d == samplingpolicy.Sampled, "policy": name, "threshold": th.Unsigned()}
		}
		json.NewEncoder(out).Encode(result)
		out.Close()
		file.Close()
	}
}
