//! Whether all invocations of a workgroup reach each barrier together, as WGSL demands and naga does not look into.
//!
//! The analysis is that of the WGSL specification, section "Uniformity", run forwards: of each variable it knows whether all
//! invocations have the same value in it, and of each statement whether all of them get there together. Loops are walked
//! until nothing changes. A function is looked into anew for each kind of arguments that it is called with.

use std::collections::HashMap;

use naga::{
    AddressSpace, Barrier, Binding, Block, BuiltIn, Expression, Function, GlobalVariable, Handle,
    LocalVariable, Module, Span, Statement, StorageAccess,
};

use crate::error::EmitError;
use crate::operands::for_each_operand;
use crate::shader::Shader;

/// Refuses a barrier that only some invocations of a workgroup may reach.
pub(crate) fn check(shader: &Shader) -> Result<(), EmitError> {
    let module = &shader.module;
    let function = &shader.entry().function;
    let mut analysis = Analysis { module, known: HashMap::new(), divergent: None };
    let arguments = function.arguments.iter().map(|argument| match argument.binding {
        Some(Binding::BuiltIn(built_in)) => is_uniform(built_in),
        _ => false,
    });
    let state = State {
        locals: Vec::new(),
        privates: vec![true; module.global_variables.len()],
        arguments: arguments.collect(),
        together: true,
    };
    analysis.function(function, state);
    match analysis.divergent {
        Some(span) => Err(EmitError::Divergent { place: shader.place(span) }),
        None => Ok(()),
    }
}

fn is_uniform(built_in: BuiltIn) -> bool {
    matches!(
        built_in,
        BuiltIn::WorkGroupId | BuiltIn::WorkGroupSize | BuiltIn::NumWorkGroups | BuiltIn::NumSubgroups
    )
}

/// What is known at one point of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// Of each local variable, whether all invocations have the same in it.
    locals: Vec<bool>,
    /// The same of variables of the module; those that are not private are not asked for.
    privates: Vec<bool>,
    /// The same of arguments, or of what they point to.
    arguments: Vec<bool>,
    /// Whether all invocations get here together.
    together: bool,
}

impl State {
    fn join(self, other: &Self) -> Self {
        let both = |a: Vec<bool>, b: &[bool]| a.into_iter().zip(b).map(|(a, b)| a && *b).collect();
        Self {
            locals: both(self.locals, &other.locals),
            privates: both(self.privates, &other.privates),
            arguments: both(self.arguments, &other.arguments),
            together: self.together && other.together,
        }
    }
}

/// The state where several ways meet, of which those that do not get there are `None`.
fn join(a: Option<State>, b: Option<State>) -> Option<State> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.join(&b)),
        (a, b) => a.or(b),
    }
}

/// A function as it leaves its caller.
#[derive(Clone, Debug)]
struct Summary {
    result: bool,
    privates: Vec<bool>,
    arguments: Vec<bool>,
}

struct Analysis<'a> {
    module: &'a Module,
    known: HashMap<(Handle<Function>, State), Summary>,
    /// The first barrier that only some may reach.
    divergent: Option<Span>,
}

/// One function being walked.
struct Frame<'a> {
    function: &'a Function,
    /// Of each expression, whether all invocations have the same value; of a place, whether it is the same place.
    uniform: Vec<bool>,
    result: bool,
    /// Where functions end.
    returned: Option<State>,
    /// For each loop or switch around: the states where it is left, and where its next turn begins.
    left: Vec<(Option<State>, Option<State>)>,
}

/// The variable that a place is part of.
enum Root {
    Local(Handle<LocalVariable>),
    Global(Handle<GlobalVariable>),
    Argument(u32),
}

impl<'a> Analysis<'a> {
    fn function(&mut self, function: &'a Function, mut state: State) -> Summary {
        state.locals = vec![true; function.local_variables.len()];
        let uniform = function.expressions.iter().map(|(_, expression)| match expression {
            Expression::FunctionArgument(index) => state.arguments.get(*index as usize) == Some(&true),
            _ => true,
        });
        let mut frame =
            Frame { function, uniform: uniform.collect(), result: true, returned: None, left: Vec::new() };
        let end = self.block(&mut frame, &function.body, Some(state.clone()));
        let end = join(end, frame.returned).unwrap_or(state);
        Summary { result: frame.result, privates: end.privates, arguments: end.arguments }
    }

    fn block(&mut self, frame: &mut Frame<'a>, block: &'a Block, mut state: Option<State>) -> Option<State> {
        for (statement, span) in block.span_iter() {
            let here = state?;
            state = self.statement(frame, statement, *span, here);
        }
        state
    }

    fn statement(
        &mut self,
        frame: &mut Frame<'a>,
        statement: &'a Statement,
        span: Span,
        mut state: State,
    ) -> Option<State> {
        match statement {
            Statement::Emit(range) => {
                for handle in range.clone() {
                    frame.uniform[handle.index()] = self.is_uniform(frame, handle, &state);
                }
            }
            Statement::Block(block) => return self.block(frame, block, Some(state)),
            Statement::If { condition, accept, reject } => {
                let mut branch = state.clone();
                branch.together &= frame.uniform[condition.index()];
                let accepted = self.block(frame, accept, Some(branch.clone()));
                let rejected = self.block(frame, reject, Some(branch));
                let stays = !escapes(accept, false) && !escapes(reject, false);
                return meet(join(accepted, rejected), stays, state.together);
            }
            Statement::Switch { selector, cases } => {
                let mut branch = state.clone();
                branch.together &= frame.uniform[selector.index()];
                frame.left.push((None, None));
                let mut fallen: Option<State> = None;
                for case in cases {
                    let start = join(Some(branch.clone()), fallen.take());
                    let end = self.block(frame, &case.body, start);
                    if case.fall_through {
                        fallen = end;
                    } else if let Some((left, _)) = frame.left.last_mut() {
                        *left = join(left.take(), end);
                    }
                }
                let (left, next) = frame.left.pop().unwrap_or_default();
                // A `continue` in a switch is the loop's around it.
                if let Some((_, outer)) = frame.left.last_mut() {
                    *outer = join(outer.take(), next);
                }
                let stays = !cases.iter().any(|case| escapes(&case.body, true) || continues(&case.body));
                return meet(left, stays, state.together);
            }
            Statement::Loop { body, continuing, break_if } => {
                return self.turns(frame, body, continuing, *break_if, state);
            }
            Statement::Break => {
                let (left, _) = frame.left.last_mut()?;
                *left = join(left.take(), Some(state));
                return None;
            }
            Statement::Continue => {
                let (_, next) = frame.left.last_mut()?;
                *next = join(next.take(), Some(state));
                return None;
            }
            Statement::Return { value } => {
                frame.result &= state.together && value.is_none_or(|value| frame.uniform[value.index()]);
                frame.returned = join(frame.returned.take(), Some(state));
                return None;
            }
            Statement::Kill => return None,
            Statement::ControlBarrier(barrier)
                if barrier.intersects(Barrier::WORK_GROUP | Barrier::STORAGE | Barrier::TEXTURE) =>
            {
                self.meeting(state.together, span);
            }
            Statement::WorkGroupUniformLoad { pointer, result } => {
                self.meeting(state.together && frame.uniform[pointer.index()], span);
                frame.uniform[result.index()] = true;
            }
            Statement::Store { pointer, value } => {
                let same = state.together && frame.uniform[value.index()];
                write(frame, &mut state, *pointer, same);
            }
            Statement::Atomic { result: Some(result), .. }
            | Statement::SubgroupBallot { result, .. }
            | Statement::SubgroupGather { result, .. }
            | Statement::SubgroupCollectiveOperation { result, .. } => frame.uniform[result.index()] = false,
            Statement::Call { function, arguments, result } => {
                self.call(frame, *function, arguments, *result, &mut state);
            }
            _ => {}
        }
        Some(state)
    }

    fn turns(
        &mut self,
        frame: &mut Frame<'a>,
        body: &'a Block,
        continuing: &'a Block,
        break_if: Option<Handle<Expression>>,
        entry: State,
    ) -> Option<State> {
        let stays = !escapes(body, true);
        let mut head = entry.clone();
        loop {
            frame.left.push((None, None));
            let end = self.block(frame, body, Some(head.clone()));
            let next = frame.left.last_mut().and_then(|(_, next)| next.take());
            let mut back = self.block(frame, continuing, join(end, next));
            let (mut left, _) = frame.left.pop().unwrap_or_default();
            if let (Some(condition), Some(back)) = (break_if, &mut back) {
                back.together &= frame.uniform[condition.index()];
                left = join(left, Some(back.clone()));
            }
            let again = match back {
                Some(back) => head.clone().join(&back),
                None => head.clone(),
            };
            if again == head {
                return meet(left, stays, entry.together);
            }
            head = again;
        }
    }

    fn call(
        &mut self,
        frame: &mut Frame<'a>,
        callee: Handle<Function>,
        arguments: &[Handle<Expression>],
        result: Option<Handle<Expression>>,
        state: &mut State,
    ) {
        let given = arguments.iter().map(|argument| match root(frame.function, *argument) {
            Some(root) => frame.uniform[argument.index()] && held(state, &root),
            None => frame.uniform[argument.index()],
        });
        let entry = State {
            locals: Vec::new(),
            privates: state.privates.clone(),
            arguments: given.collect(),
            together: state.together,
        };
        let key = (callee, entry.clone());
        let summary = match self.known.get(&key) {
            Some(summary) => summary.clone(),
            None => {
                let summary = self.function(&self.module.functions[callee], entry);
                self.known.insert(key, summary.clone());
                summary
            }
        };
        state.privates.clone_from(&summary.privates);
        for (argument, same) in arguments.iter().zip(&summary.arguments) {
            write(frame, state, *argument, *same);
        }
        if let Some(result) = result {
            frame.uniform[result.index()] = summary.result;
        }
    }

    fn meeting(&mut self, together: bool, span: Span) {
        if !together && self.divergent.is_none() {
            self.divergent = Some(span);
        }
    }

    fn is_uniform(&self, frame: &Frame<'a>, handle: Handle<Expression>, state: &State) -> bool {
        let expression = &frame.function.expressions[handle];
        let mut operands = true;
        for_each_operand(expression, |operand, _| operands &= frame.uniform[operand.index()]);
        match expression {
            Expression::Load { pointer } => operands && self.same_in(frame, *pointer, state),
            Expression::CooperativeLoad { data, .. } => operands && self.same_in(frame, data.pointer, state),
            Expression::ImageSample { .. } | Expression::ImageLoad { .. } => false,
            Expression::ArrayLength(_) => true,
            _ => operands,
        }
    }

    /// Whether all invocations read the same from one place.
    fn same_in(&self, frame: &Frame<'a>, pointer: Handle<Expression>, state: &State) -> bool {
        match root(frame.function, pointer) {
            Some(Root::Global(global)) => match self.module.global_variables[global].space {
                AddressSpace::Private => held(state, &Root::Global(global)),
                AddressSpace::Uniform | AddressSpace::Immediate => true,
                AddressSpace::Storage { access } => !access.contains(StorageAccess::STORE),
                _ => false,
            },
            Some(root) => held(state, &root),
            None => false,
        }
    }
}

/// After branches or turns: if none of them goes elsewhere, all meet again that came together.
fn meet(ends: Option<State>, stays: bool, together: bool) -> Option<State> {
    ends.map(|ends| State { together: if stays { together } else { ends.together }, ..ends })
}

/// Whether a block may go elsewhere than to its end: return, or leave or continue a loop around it. In a loop or a switch
/// of its own (`inside`), leaving that is none of it.
fn escapes(block: &Block, inside: bool) -> bool {
    block.iter().any(|statement| match statement {
        Statement::Return { .. } | Statement::Kill => true,
        Statement::Break | Statement::Continue => !inside,
        Statement::Block(block) => escapes(block, inside),
        Statement::If { accept, reject, .. } => escapes(accept, inside) || escapes(reject, inside),
        // A `continue` in a switch goes beyond it, but not beyond the loop that it may be in.
        Statement::Switch { cases, .. } => {
            cases.iter().any(|case| escapes(&case.body, true) || (!inside && continues(&case.body)))
        }
        Statement::Loop { body, continuing, .. } => escapes(body, true) || escapes(continuing, true),
        _ => false,
    })
}

/// Whether a block says `continue` to the loop around it.
fn continues(block: &Block) -> bool {
    crate::loops::has_continue(block)
}

fn root(function: &Function, mut pointer: Handle<Expression>) -> Option<Root> {
    loop {
        match function.expressions[pointer] {
            Expression::Access { base, .. } | Expression::AccessIndex { base, .. } => pointer = base,
            Expression::LocalVariable(local) => return Some(Root::Local(local)),
            Expression::GlobalVariable(global) => return Some(Root::Global(global)),
            Expression::FunctionArgument(index) => return Some(Root::Argument(index)),
            _ => return None,
        }
    }
}

fn held(state: &State, root: &Root) -> bool {
    let known = match root {
        Root::Local(local) => state.locals.get(local.index()),
        Root::Global(global) => state.privates.get(global.index()),
        Root::Argument(index) => state.arguments.get(*index as usize),
    };
    known == Some(&true)
}

/// Writes to a place what is, or is not, the same for all.
fn write(frame: &Frame<'_>, state: &mut State, pointer: Handle<Expression>, same: bool) {
    let Some(root) = root(frame.function, pointer) else { return };
    let known = match root {
        Root::Local(local) => state.locals.get_mut(local.index()),
        Root::Global(global) => state.privates.get_mut(global.index()),
        Root::Argument(index) => state.arguments.get_mut(index as usize),
    };
    let whole = matches!(
        frame.function.expressions[pointer],
        Expression::LocalVariable(_) | Expression::GlobalVariable(_) | Expression::FunctionArgument(_)
    );
    if let Some(known) = known {
        // A part that is the same does not make the rest so.
        *known = same && (whole || (*known && frame.uniform[pointer.index()]));
    }
}
