package main

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// What pods and nodes do is said in their annotations; the times are Go durations such as 5s or 1m30s. Without runFor
// and failAfter a pod runs until it is deleted, whoever owns it.
const (
	prefix    = "demo.fluence.flux-framework.org/"
	runFor    = prefix + "run-for"    // it succeeds this long after it began to run
	failAfter = prefix + "fail-after" // it fails (exit code 1) this long after it began to run
	stopFor   = prefix + "stop-for"   // it takes this long to go away once it is deleted
	ready     = prefix + "ready"      // while it is "false", the node is NotReady
)

// step is what a kubelet does for a pod.
type step string

const (
	nothing step = "" // nothing, until the pod changes
	begin   step = "begin"
	succeed step = "succeed"
	fail    step = "fail"
	leave   step = "leave"
)

// nextStep returns the next step of a bound pod, and how long from now it is due.
func nextStep(pod *v1.Pod, now time.Time) (step, time.Duration) {
	switch {
	case pod.DeletionTimestamp != nil:
		return leaving(pod, now)
	case pod.Status.Phase == v1.PodPending:
		return begin, 0
	case pod.Status.Phase == v1.PodRunning:
		began := now
		if pod.Status.StartTime != nil {
			began = pod.Status.StartTime.Time
		}
		if after, ok := duration(pod, failAfter); ok {
			return fail, remaining(began, after, now)
		}
		if after, ok := duration(pod, runFor); ok {
			return succeed, remaining(began, after, now)
		}
	}
	return nothing, 0
}

func leaving(pod *v1.Pod, now time.Time) (step, time.Duration) {
	if ends(pod) {
		after, _ := duration(pod, stopFor)
		return fail, remaining(pod.DeletionTimestamp.Time, after, now)
	}
	grace := time.Duration(0)
	if pod.DeletionGracePeriodSeconds != nil {
		grace = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	}
	if grace == 0 {
		// It is out of the kubelet's hands, and only finalizers keep it.
		return nothing, 0
	}
	after, _ := duration(pod, stopFor)
	return leave, remaining(pod.DeletionTimestamp.Add(-grace), after, now)
}

// ends says whether the containers of a pod that is being deleted have to end first. Kubelets end them all; here that is
// seen of pods that a Job tracks, because their Job may wait for it.
func ends(pod *v1.Pod) bool {
	done := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
	return !done && slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

// remaining returns how much of a time that began at since is left. The API's times are cut to whole seconds, so up to
// a second more may be left than it seems, never less.
func remaining(since time.Time, whole time.Duration, now time.Time) time.Duration {
	return max(0, whole-max(0, now.Sub(since)-time.Second))
}

func duration(pod *v1.Pod, annotation string) (time.Duration, bool) {
	text, found := pod.Annotations[annotation]
	if !found {
		return 0, false
	}
	value, err := time.ParseDuration(text)
	if err != nil {
		klog.ErrorS(err, "the annotation is ignored", "pod", klog.KObj(pod), "annotation", annotation)
	}
	return value, err == nil
}

// podStatus returns the status of a pod after a step, as far as it changes.
func podStatus(pod *v1.Pod, step step, now metav1.Time) v1.PodStatus {
	switch step {
	case succeed:
		return ended(pod, now, v1.PodSucceeded, "PodCompleted", 0, "Completed")
	case fail:
		return ended(pod, now, v1.PodFailed, "PodFailed", 1, "Error")
	}
	up := v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}}
	done := terminated(0, "Completed", now, now)
	return v1.PodStatus{
		Phase:                 v1.PodRunning,
		StartTime:             &now,
		Conditions:            conditions(v1.ConditionTrue, "", now, v1.PodInitialized, v1.ContainersReady, v1.PodReady),
		InitContainerStatuses: initContainers(pod, up, done),
		ContainerStatuses:     containers(pod.Spec.Containers, up, true),
	}
}

func ended(pod *v1.Pod, now metav1.Time, phase v1.PodPhase, why string, code int32, reason string) v1.PodStatus {
	began := now
	if pod.Status.StartTime != nil {
		began = *pod.Status.StartTime
	}
	return v1.PodStatus{
		Phase:                 phase,
		Conditions:            conditions(v1.ConditionFalse, why, now, v1.ContainersReady, v1.PodReady),
		InitContainerStatuses: initContainers(pod, terminated(0, "Completed", began, now), terminated(0, "Completed", began, began)),
		ContainerStatuses:     containers(pod.Spec.Containers, terminated(code, reason, began, now), false),
	}
}

// initContainers returns the statuses of init containers: those that run beside the others are in the state beside, and
// all others are done.
func initContainers(pod *v1.Pod, beside, done v1.ContainerState) []v1.ContainerStatus {
	var all []v1.ContainerStatus
	for _, one := range pod.Spec.InitContainers {
		if one.RestartPolicy != nil && *one.RestartPolicy == v1.ContainerRestartPolicyAlways {
			all = append(all, container(one, beside, beside.Running != nil))
		} else {
			all = append(all, container(one, done, true))
		}
	}
	return all
}

func containers(specs []v1.Container, state v1.ContainerState, ready bool) []v1.ContainerStatus {
	all := make([]v1.ContainerStatus, 0, len(specs))
	for _, one := range specs {
		all = append(all, container(one, state, ready))
	}
	return all
}

func container(spec v1.Container, state v1.ContainerState, ready bool) v1.ContainerStatus {
	started := state.Running != nil
	return v1.ContainerStatus{Name: spec.Name, Image: spec.Image, State: state, Ready: ready, Started: &started}
}

func terminated(code int32, reason string, began, now metav1.Time) v1.ContainerState {
	return v1.ContainerState{
		Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: began, FinishedAt: now},
	}
}

func conditions(
	status v1.ConditionStatus, reason string, now metav1.Time, kinds ...v1.PodConditionType,
) []v1.PodCondition {
	all := make([]v1.PodCondition, 0, len(kinds))
	for _, kind := range kinds {
		all = append(all, v1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: now})
	}
	return all
}

// nodeConditions returns the conditions of a node that isn't as its annotation says, none for any other node.
func nodeConditions(node *v1.Node, now metav1.Time) []v1.NodeCondition {
	is := false
	for _, condition := range node.Status.Conditions {
		is = is || condition.Type == v1.NodeReady && condition.Status == v1.ConditionTrue
	}
	wanted := node.Annotations[ready] != "false"
	if is == wanted {
		return nil
	}
	if !wanted {
		message := "the annotation " + ready + " says so"
		return []v1.NodeCondition{nodeCondition(v1.NodeReady, v1.ConditionFalse, "KubeletNotReady", message, now)}
	}
	message := "its kubelet is played"
	all := []v1.NodeCondition{nodeCondition(v1.NodeReady, v1.ConditionTrue, "KubeletReady", message, now)}
	for _, kind := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure} {
		all = append(all, nodeCondition(kind, v1.ConditionFalse, "KubeletHasNoPressure", "", now))
	}
	return all
}

func nodeCondition(
	kind v1.NodeConditionType, status v1.ConditionStatus, reason, message string, now metav1.Time,
) v1.NodeCondition {
	return v1.NodeCondition{
		Type: kind, Status: status, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now,
	}
}
