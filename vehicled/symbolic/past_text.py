"""Text of the functions of a past, which `record_code.py` compiles with its own: their tables are described there."""

PAST = """
; Forget the oldest moment: its record, and those of its observations, which follow its own visits, are free again.
define internal void @drop_moment(ptr %past, ptr %moments, ptr %visits, i64 %own) nounwind {
entry:
  %first = call ptr @get_ptr(ptr %moments, i64 ROWS_FIRST)
  %record = call i64 @get(ptr %first, i64 1)
  %free = call ptr @get_ptr(ptr %past, i64 OF_FREE_RECORDS)
  call void @release(ptr %free, i64 %record)
  %second = getelementptr i64, ptr %first, i64 MOMENT
  %number = call i64 @get(ptr %second, i64 2)
  %dropped = call i64 @get(ptr %visits, i64 ROWS_DROPPED)
  %place = sub i64 %number, %dropped
  %count = sub i64 %place, %own
  %rows = call ptr @get_ptr(ptr %visits, i64 ROWS_FIRST)
  br label %top
top:
  %i = phi i64 [%own, %entry], [%following, %body]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %k0 = mul i64 %i, VISIT
  %k1 = add i64 %k0, 1
  %event = call i64 @get(ptr %rows, i64 %k0)
  %kind = call ptr @get_ptr(ptr %rows, i64 %k1)
  %free_events = call ptr @get_ptr(ptr %kind, i64 KIND_FREE)
  call void @release(ptr %free_events, i64 %event)
  %following = add i64 %i, 1
  br label %top
end:
  call void @drop_rows(ptr %visits, i64 VISIT, i64 %count)
  call void @drop_rows(ptr %moments, i64 MOMENT, i64 1)
  ret void
}

; Begin the moment OF_T: forget those that are older than OF_MEMORY or too many, keep a record of the workspace, list
; its own visits, and run the kernel of the begin. Returns 0, and has done nothing more, where a table has no room:
; it is enlarged, and this is called again.
define i32 @begin(ptr %w, ptr %past) nounwind {
entry:
  %t = call i64 @get(ptr %past, i64 OF_T)
  %memory = call i64 @get(ptr %past, i64 OF_MEMORY)
  %limit = sub i64 %t, %memory
  %most = call i64 @get(ptr %past, i64 OF_MOST_MOMENTS)
  %most_events = call i64 @get(ptr %past, i64 OF_MOST_EVENTS)
  %moments = call ptr @get_ptr(ptr %past, i64 OF_MOMENTS)
  %visits = call ptr @get_ptr(ptr %past, i64 OF_VISITS)
  %own = call i64 @get(ptr %past, i64 OF_OWN)
  br label %look
look:
  %count = call i64 @get(ptr %moments, i64 ROWS_COUNT)
  %several = icmp sgt i64 %count, 1
  br i1 %several, label %compare, label %check
compare:
  %first = call ptr @get_ptr(ptr %moments, i64 ROWS_FIRST)
  %t_second = call i64 @get(ptr %first, i64 MOMENT)
  %is_old = icmp sle i64 %t_second, %limit
  %are_many = icmp sge i64 %count, %most
  %listed = call i64 @get(ptr %visits, i64 ROWS_COUNT)
  %of_moments = mul i64 %own, %count
  %events = sub i64 %listed, %of_moments
  %are_many_events = icmp sgt i64 %events, %most_events
  %too_many = or i1 %are_many, %are_many_events
  %drops = or i1 %is_old, %too_many
  br i1 %drops, label %drop, label %check
drop:
  call void @drop_moment(ptr %past, ptr %moments, ptr %visits, i64 %own)
  br label %look
check:
  %free = call ptr @get_ptr(ptr %past, i64 OF_FREE_RECORDS)
  %records = load i64, ptr %free, align 8
  %has_record = icmp sgt i64 %records, 0
  %has_moment = call i1 @has_room(ptr %moments, i64 MOMENT, i64 1)
  %has_visits = call i1 @has_room(ptr %visits, i64 VISIT, i64 %own)
  %has_rows = and i1 %has_moment, %has_visits
  %has_all = and i1 %has_record, %has_rows
  br i1 %has_all, label %keep, label %full
full:
  ret i32 0
keep:
  %kernel = call ptr @get_ptr(ptr %past, i64 OF_KERNEL_OF_BEGIN)
  %none = icmp eq ptr %kernel, null
  br i1 %none, label %write, label %run
run:
  call void %kernel(ptr %w)
  br label %write
write:
  %record = call ptr @take(ptr %free)
  %layout = call ptr @get_ptr(ptr %past, i64 OF_RECORD)
  call void @copy(ptr %w, ptr %record, ptr %layout, i64 0)
  %row = call ptr @find_end(ptr %visits, i64 VISIT)
  br label %top
top:
  %i = phi i64 [0, %write], [%following, %body]
  %more = icmp slt i64 %i, %own
  br i1 %more, label %body, label %listed_all
body:
  %twice = shl i64 %i, 1
  %k1 = add i64 %twice, OF_FIRST_VISIT
  %k2 = add i64 %k1, 1
  %offset = call i64 @get(ptr %past, i64 %k1)
  %kind = call i64 @get(ptr %past, i64 %k2)
  %part = getelementptr double, ptr %record, i64 %offset
  %address = ptrtoint ptr %part to i64
  %second = add i64 %twice, 1
  call void @set(ptr %row, i64 %twice, i64 %address)
  call void @set(ptr %row, i64 %second, i64 %kind)
  %following = add i64 %i, 1
  br label %top
listed_all:
  call void @count_added(ptr %visits, i64 %own)
  %moment = call ptr @find_end(ptr %moments, i64 MOMENT)
  store i64 %t, ptr %moment, align 8
  %of_record = ptrtoint ptr %record to i64
  call void @set(ptr %moment, i64 1, i64 %of_record)
  %dropped = call i64 @get(ptr %visits, i64 ROWS_DROPPED)
  %place = call i64 @get(ptr %visits, i64 ROWS_COUNT)
  %number = add i64 %dropped, %place
  call void @set(ptr %moment, i64 2, i64 %number)
  call void @count_added(ptr %moments, i64 1)
  call void @set(ptr %past, i64 OF_CHANGED, i64 0)
  ret i32 1
}

; Keep what the correction of the last moment has made.
define void @correct(ptr %w, ptr %past) nounwind {
  %moments = call ptr @get_ptr(ptr %past, i64 OF_MOMENTS)
  %end = call ptr @find_end(ptr %moments, i64 MOMENT)
  %last = getelementptr i64, ptr %end, i64 -MOMENT
  %record = call ptr @get_ptr(ptr %last, i64 1)
  %begin = call i64 @get(ptr %past, i64 OF_AFTER_BEGIN)
  %part = getelementptr double, ptr %record, i64 %begin
  %layout = call ptr @get_ptr(ptr %past, i64 OF_CORRECTED)
  call void @copy(ptr %w, ptr %part, ptr %layout, i64 0)
  call void @set(ptr %past, i64 OF_CHANGED, i64 1)
  ret void
}

; Write where the record of a moment is, and the visits from its first observation on. Returns 0 without room for one
; more visit.
define i32 @locate(ptr %past, i64 %moment) nounwind {
  %visits = call ptr @get_ptr(ptr %past, i64 OF_VISITS)
  %has_room = call i1 @has_room(ptr %visits, i64 VISIT, i64 1)
  br i1 %has_room, label %find, label %full
full:
  ret i32 0
find:
  %moments = call ptr @get_ptr(ptr %past, i64 OF_MOMENTS)
  %rows = call ptr @get_ptr(ptr %moments, i64 ROWS_FIRST)
  %by = mul i64 %moment, MOMENT
  %row = getelementptr i64, ptr %rows, i64 %by
  %record = call i64 @get(ptr %row, i64 1)
  call void @set(ptr %past, i64 OF_LOCATED, i64 %record)
  %number = call i64 @get(ptr %row, i64 2)
  %dropped = call i64 @get(ptr %visits, i64 ROWS_DROPPED)
  %place = sub i64 %number, %dropped
  %first = call ptr @get_ptr(ptr %visits, i64 ROWS_FIRST)
  %before = mul i64 %place, VISIT
  %begin = getelementptr i64, ptr %first, i64 %before
  %address = ptrtoint ptr %begin to i64
  call void @set(ptr %past, i64 OF_LOCATED_VISITS, i64 %address)
  %all = call i64 @get(ptr %visits, i64 ROWS_COUNT)
  %count = sub i64 %all, %place
  call void @set(ptr %past, i64 OF_LOCATED_COUNT, i64 %count)
  ret i32 1
}

; After a visit was inserted at a moment: the visits of later moments begin one further on.
define void @count_inserted(ptr %past, i64 %moment) nounwind {
entry:
  %visits = call ptr @get_ptr(ptr %past, i64 OF_VISITS)
  call void @count_added(ptr %visits, i64 1)
  %moments = call ptr @get_ptr(ptr %past, i64 OF_MOMENTS)
  %rows = call ptr @get_ptr(ptr %moments, i64 ROWS_FIRST)
  %count = call i64 @get(ptr %moments, i64 ROWS_COUNT)
  br label %top
top:
  %before = phi i64 [%moment, %entry], [%i, %body]
  %i = add i64 %before, 1
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %by = mul i64 %i, MOMENT
  %row = getelementptr i64, ptr %rows, i64 %by
  %number = call i64 @get(ptr %row, i64 2)
  %further = add i64 %number, 1
  call void @set(ptr %row, i64 2, i64 %further)
  br label %top
end:
  ret void
}

; Restore the pose of the time OF_T: a share of the way from that after the correction of the moment before (after) to
; that before the correction of the moment at or after it (k), which a binary search finds. Behind the last moment it
; is that of the last one, and how far ahead the time is (lead) is written too.
define i64 @find_moment(ptr %w, ptr %past) nounwind {
entry:
  %table = call ptr @get_ptr(ptr %past, i64 OF_MOMENTS)
  %moments = call ptr @get_ptr(ptr %table, i64 ROWS_FIRST)
  %count = call i64 @get(ptr %table, i64 ROWS_COUNT)
  %t = call i64 @get(ptr %past, i64 OF_T)
  %changed = call i64 @get(ptr %past, i64 OF_CHANGED)
  %p_latency = getelementptr double, ptr %past, i64 OF_LATENCY
  %latency = load double, ptr %p_latency, align 8
  %memory = call i64 @get(ptr %past, i64 OF_MEMORY)
  %last = sub i64 %count, 1
  %last_begin = mul i64 %last, MOMENT
  %p_now = getelementptr i64, ptr %moments, i64 %last_begin
  %now = load i64, ptr %p_now, align 8
  %first = load i64, ptr %moments, align 8
  %oldest = sub i64 %now, %memory
  %is_forgotten = icmp slt i64 %t, %oldest
  %is_before = icmp slt i64 %t, %first
  %is_too_old = or i1 %is_forgotten, %is_before
  br i1 %is_too_old, label %none, label %begin
none:
  ret i64 TOO_OLD
begin:
  %is_past = icmp slt i64 %t, %now
  %has_changed = icmp ne i64 %changed, 0
  %lies_between = or i1 %is_past, %has_changed
  br i1 %lies_between, label %top, label %found
top:
  %low = phi i64 [0, %begin], [%next_low, %halve]
  %high = phi i64 [%count, %begin], [%next_high, %halve]
  %more = icmp slt i64 %low, %high
  br i1 %more, label %halve, label %end
halve:
  %sum = add i64 %low, %high
  %middle = ashr i64 %sum, 1
  %middle_begin = mul i64 %middle, MOMENT
  %p_middle = getelementptr i64, ptr %moments, i64 %middle_begin
  %t_middle = load i64, ptr %p_middle, align 8
  %is_earlier = icmp slt i64 %t_middle, %t
  %above = add i64 %middle, 1
  %next_low = select i1 %is_earlier, i64 %above, i64 %low
  %next_high = select i1 %is_earlier, i64 %high, i64 %middle
  br label %top
end:
  %is_within = icmp slt i64 %low, %last
  %at = select i1 %is_within, i64 %low, i64 %last
  %is_first = icmp eq i64 %at, 0
  br i1 %is_first, label %found, label %between
between:
  %one_before = sub i64 %at, 1
  %before_begin = mul i64 %one_before, MOMENT
  %p_before = getelementptr i64, ptr %moments, i64 %before_begin
  %t_before = load i64, ptr %p_before, align 8
  %at_begin = mul i64 %at, MOMENT
  %p_at = getelementptr i64, ptr %moments, i64 %at_begin
  %t_at = load i64, ptr %p_at, align 8
  %since = sub i64 %t, %t_before
  %step = sub i64 %t_at, %t_before
  %since_double = sitofp i64 %since to double
  %step_double = sitofp i64 %step to double
  %quotient = fdiv double %since_double, %step_double
  %is_share = fcmp olt double %quotient, 1.0
  %limited = select i1 %is_share, double %quotient, double 1.0
  br label %found
found:
  %k = phi i64 [%last, %begin], [%at, %end], [%at, %between]
  %after = phi i64 [%last, %begin], [%at, %end], [%one_before, %between]
  %share = phi double [1.0, %begin], [1.0, %end], [%limited, %between]
  %after_row = mul i64 %after, MOMENT
  %p_after = getelementptr i64, ptr %moments, i64 %after_row
  %record_after = call ptr @get_ptr(ptr %p_after, i64 1)
  %after_begin = call i64 @get(ptr %past, i64 OF_AFTER_BEGIN)
  %corrected = getelementptr double, ptr %record_after, i64 %after_begin
  %layout_after = call ptr @get_ptr(ptr %past, i64 OF_AFTER)
  call void @copy(ptr %w, ptr %corrected, ptr %layout_after, i64 1)
  %k_begin = mul i64 %k, MOMENT
  %p_k = getelementptr i64, ptr %moments, i64 %k_begin
  %t_k = load i64, ptr %p_k, align 8
  %record_before = call ptr @get_ptr(ptr %p_k, i64 1)
  %layout_before = call ptr @get_ptr(ptr %past, i64 OF_BEFORE)
  call void @copy(ptr %w, ptr %record_before, ptr %layout_before, i64 1)
  %age_ns = sub i64 %t_k, %t
  %age_number = sitofp i64 %age_ns to double
  %age = fmul double %age_number, NANO
  %is_behind = fcmp ogt double %age, 0.0
  %behind = select i1 %is_behind, double %age, double 0.0
  %minus = fneg double %age
  %is_ahead = fcmp ogt double %minus, 0.0
  %ahead = select i1 %is_ahead, double %minus, double 0.0
  %p_longest = getelementptr double, ptr %past, i64 OF_LONGEST
  %longest = load double, ptr %p_longest, align 8
  %is_near = fcmp olt double %ahead, %longest
  %lead = select i1 %is_near, double %ahead, double %longest
  call void @put(ptr %w, ptr %past, i64 OF_AGE, double %behind)
  call void @put(ptr %w, ptr %past, i64 OF_LEAD, double %lead)
  call void @put(ptr %w, ptr %past, i64 OF_LATENCY_PLACE, double %latency)
  call void @put(ptr %w, ptr %past, i64 OF_SHARE, double %share)
  %kernel = call ptr @get_ptr(ptr %past, i64 OF_KERNEL_OF_MOMENT)
  call void %kernel(ptr %w)
  %is_last = icmp eq i64 %k, %last
  %result = select i1 %is_last, i64 LAST, i64 %k
  ret i64 %result
}
"""
